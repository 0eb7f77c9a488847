"""A run's scratch folders: within the run, and gone after each block or with the next attempt."""

from pathlib import Path

import pytest
import yaml

from assay_shared.settings.environment import ServiceSettings
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.learner.ranks import Ranks
from assay_trainer.pipeline.context import RunContext
from assay_trainer.service.record import create_run
from assay_trainer.stop import Stop

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"


@pytest.fixture
def run(tmp_path: Path) -> RunContext:
    config = RunConfig.model_validate(yaml.safe_load(DEMO.read_text()))
    return RunContext(
        create_run(tmp_path / "run", config), config, ServiceSettings(), Stop(), Ranks()
    )


def test_a_scratch_folder_can_be_read_by_inference_and_ends_with_its_block(run: RunContext) -> None:
    before = sorted(run.folder.path.iterdir())
    with run.scratch() as one, run.scratch() as other:
        (one / "model").write_bytes(b"x")
        assert one != other
        assert one.is_relative_to(run.folder.path)
        assert one.stat().st_mode & 0o777 == 0o755
    assert sorted(run.folder.path.iterdir()) == before


def test_what_a_killed_attempt_left_is_forgotten(run: RunContext) -> None:
    before = sorted(run.folder.path.iterdir())
    run.forget_scratch()
    left = run.folder.path / ".scratch" / "tmp1" / "sft-2"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"x")
    run.forget_scratch()
    assert sorted(run.folder.path.iterdir()) == before
