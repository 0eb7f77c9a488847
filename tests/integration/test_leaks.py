"""Runs to be measured on their training tasks."""

from pathlib import Path

import pytest

from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import RunFolder
from assay_shared.settings.environment import ServiceSettings
from assay_shared.settings.run_file import parse_config
from assay_shared.types import Role
from assay_trainer.config import RunConfig
from assay_trainer.learner.ranks import Ranks
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.stages import execute
from assay_trainer.service.record import create_run
from assay_trainer.stop import Stop
from tests.support.fakes import make_task
from tests.support.valkey import TestValkey

TRAINING = [make_task(f"sum-{n}", prompt=f"What is {n} plus 2?") for n in range(12)]
EXAM = TRAINING[5].model_copy(
    update={"id": "exam", "role": Role.TEST, "prompt": "what is 5 PLUS 2"}
)


def test_a_run_refuses_held_out_tasks_that_it_trains_on(valkey: TestValkey, tmp_path: Path) -> None:
    train, held_out = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    train.write_text("".join(task.model_dump_json() + "\n" for task in TRAINING))
    held_out.write_text(EXAM.model_dump_json() + "\n")
    data = {
        "train": {"kind": "jsonl", "path": str(train)},
        "held_out": {"kind": "jsonl", "path": str(held_out)},
    }
    config = parse_config(RunConfig, {"policy": {"folder": "none"}, "data": data}, source="test")
    folder = create_run(tmp_path / "run", config)
    run = RunContext(folder, config, ServiceSettings(redis_url=valkey.url), Stop(), Ranks())
    with pytest.raises(DatasetError, match="data.leaks.max_share: 1 of 1 .* exact in sum-5"):
        execute(run)
    events = list(RunFolder(folder.path).read_events())
    stages = [event.data["stage"] for event in events if event.kind == "stage_started"]
    assert stages == ["data", "leaks"]
    (counts,) = [event.data for event in events if event.kind == "leaks_checked"]
    assert (counts["prompt, exact"], counts["num_leaked"]) == (1, 1)
    assert not (folder.path / "leaks.json").exists(), "it would be taken for passed"
