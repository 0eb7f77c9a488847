"""Runs under a stopping service: asked once, in time, and continued by the next service."""

from pathlib import Path

import pytest
import yaml

from assay_shared.clients.trainer import RunRequest
from assay_shared.errors import ConfigError
from assay_shared.runs.run_folder import RunFolder
from assay_trainer import config as trainer_config
from assay_trainer.learner import checkpoint
from assay_trainer.service.runs import Runs
from tests.conftest import wait_until
from tests.support.valkey import TestValkey

DEMO = yaml.safe_load((Path(trainer_config.__file__).parent / "service" / "demo.yaml").read_text())
#: Only SFT, which asks nobody: it lasts until it is stopped.
SFT = DEMO | {
    "grpo": None,
    "data": DEMO["data"] | {"validation": None, "leaks": None},
    "sft": {"steps": 100_000, "batch_size": 2, "checkpoint_every": 50_000},
}


def wait_for_steps(folder: Path) -> None:
    def has_stepped() -> bool:
        status = RunFolder(folder).read_status()
        assert status.state in ("created", "running"), status
        return status.stage == "sft" and status.step > 0

    wait_until(has_stepped, "a step of SFT", 200)


def test_a_run_whose_switch_cannot_act_is_refused_and_has_no_folder(tmp_path: Path) -> None:
    runs = Runs(tmp_path, stop_grace_s=0, max_running=1)
    config = DEMO | {"grpo": DEMO["grpo"] | {"kl_estimator": "k1"}}
    with pytest.raises(ConfigError, match="kl_estimator does nothing: kl_weight is 0"):
        runs.start(RunRequest(name="one", config=config))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_next_service_goes_on_with_what_the_end_of_the_last_has_stopped(
    tmp_path: Path, valkey: TestValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_REDIS_URL", valkey.url)
    first = Runs(tmp_path, stop_grace_s=100, max_running=2)
    for name in ("one", "two"):
        first.start(RunRequest(name=name, config=SFT))
    try:
        for name in ("one", "two"):
            wait_for_steps(tmp_path / name)
        first.stop("two")  # by its user: the next service lets it be
        first.stop("two")  # a second time changes nothing: its checkpoint is written
    finally:
        first.close()
    for name in ("one", "two"):
        assert first.info(name).status.state == "stopped"
        assert checkpoint.newest(tmp_path / name / "checkpoints" / "sft") is not None
    second = Runs(tmp_path, stop_grace_s=100, max_running=2)
    second.resume_stopped()
    try:
        assert list(second.running()) == ["one"]
    finally:
        second.close()
    third = Runs(tmp_path, stop_grace_s=0, max_running=2)
    third.resume_stopped()
    try:
        assert list(third.running()) == ["one"], "it was the service's end again"
    finally:
        third.close()
