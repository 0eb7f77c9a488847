"""Trackers get the numbers of each step; one that fails costs only itself."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from assay_shared.errors import ConfigError
from assay_shared.runs.run_folder import Event, RunFolder
from assay_shared.settings.environment import ServiceSettings
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.learner.ranks import Ranks
from assay_trainer.meters import METERS
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.trackers import numbers_of, tracked
from assay_trainer.service.record import create_run, open_run
from assay_trainer.stop import Stop
from tests.conftest import wait_until
from tests.unit.trainer.evaluation.test_report import make_step

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"


def begin(path: Path, *trackers: str) -> RunContext:
    """Create or resume a run."""
    values = yaml.safe_load(DEMO.read_text()) | {"trackers": trackers}
    config = RunConfig.model_validate(values)
    folder = open_run(path)[0] if path.exists() else create_run(path, config)
    return RunContext(folder, config, ServiceSettings(), Stop(), Ranks())


def record_steps(run: RunContext, kind: str, steps: range) -> None:
    for step in steps:
        run.record(kind, step=step, loss=step / 2, validation_loss=None, margin={"mean": 0.25})


def events_of(folder: RunFolder, kind: str) -> list[Event]:
    return [event for event in folder.read_events() if event.kind == kind]


def test_every_number_of_a_step_has_a_tag() -> None:
    data = make_step(3, failures={"judge": 2}).model_dump(mode="json") | {"mfu": 0.25}
    numbers = numbers_of(Event(time=0, kind="step", data=data))
    assert numbers is not None
    assert (numbers.stage, numbers.step) == ("grpo", 3)
    for name in (
        "loss",
        "learning_rate",
        "grad_norm",
        "reward",
        "pass_rate",
        "mfu",
        "tokens_per_s",
    ):
        assert numbers.values[f"grpo/{name}"] == data[name]
    assert {f"grpo/{meter.field}" for meter in METERS} <= set(numbers.values)
    assert numbers.values["grpo/curriculum_stage/<b>"] == 1.0
    assert numbers.values["grpo/failures/judge"] == 2
    assert "grpo/mismatch/mean_abs_nats" in numbers.values
    sft = numbers_of(Event(time=0, kind="sft_step", data={"step": 5, "loss": 1, "name": "a"}))
    assert sft == ("sft", 5, {"sft/loss": 1.0})
    assert numbers_of(Event(time=0, kind="resumed", data={"step": 5})) is None


@pytest.mark.slow
def test_tensorboard_has_all_steps_once_after_a_resume(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    first = begin(tmp_path / "run", "tensorboard")
    with tracked(first):
        record_steps(first, "sft_step", range(1, 6))
        record_steps(first, "step", range(1, 5))
    again = begin(tmp_path / "run", "tensorboard")
    with tracked(again):
        for step in (3, 4, 5):
            again.record("step", step=step, loss=10.0 * step)
    folder = tmp_path / "run" / "tensorboard"
    read = {}
    for stage in ("sft", "grpo"):
        found = EventAccumulator(str(folder / stage))
        found.Reload()
        read[stage] = [(one.step, one.value) for one in found.Scalars(f"{stage}/loss")]
    assert read["grpo"] == [(1, 0.5), (2, 1.0), (3, 30.0), (4, 40.0), (5, 50.0)]
    assert read["sft"] == [(step, step / 2) for step in range(1, 6)]
    assert found.Tags()["scalars"] == ["grpo/loss", "grpo/margin/mean"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_continues_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    where = (tmp_path / "store").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", where)
    for steps in (range(1, 3), range(3, 5)):
        run = begin(tmp_path / "run", "mlflow")
        with tracked(run):
            record_steps(run, "step", steps)
    (told,) = events_of(run.folder, "tracking")
    client = mlflow.MlflowClient(where)
    found = client.get_metric_history(str(told.data["id"]), "grpo/loss")
    assert [(one.step, one.value) for one in found] == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 2.0)]
    assert client.get_run(str(told.data["id"])).info.status == "FINISHED"
    assert events_of(run.folder, "tracker_dropped") == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_trackio_keeps_a_run_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("trackio") is None:
        pytest.skip("needs trackio")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    run = begin(tmp_path / "run", "trackio")
    with tracked(run):
        record_steps(run, "step", range(1, 3))
    assert events_of(run.folder, "tracker_dropped") == []
    assert list((tmp_path / "trackio").rglob("*.db")), "it has a database"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wandb_writes_a_run_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("wandb") is None:
        pytest.skip("needs wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = begin(tmp_path / "run", "wandb")
    with tracked(run):
        record_steps(run, "sft_step", range(1, 3))
        record_steps(run, "step", range(1, 3))
    assert events_of(run.folder, "tracker_dropped") == []
    (written,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    # Its own process writes the file, some time after the end.
    wait_until(lambda: b"sft/loss" in written.read_bytes(), "W&B to write")
    assert b"grpo/margin" in written.read_bytes()


class BrokenWriter:
    """TensorBoard's writer on a disk that fails at the second step."""

    def __init__(self, folder: str, purge_step: int) -> None:
        self.steps: list[int] = []

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        if step == 2:
            raise OSError("no space left")

    def flush(self) -> None: ...


def test_a_tracker_that_fails_is_dropped_once_and_the_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = BrokenWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    run = begin(tmp_path / "run", "tensorboard")
    with tracked(run):
        record_steps(run, "step", range(1, 5))
    dropped = [event.data for event in events_of(run.folder, "tracker_dropped")]
    assert dropped == [{"tracker": "tensorboard", "message": "OSError: no space left"}]
    assert len(events_of(run.folder, "step")) == 4, json.dumps(dropped)


def test_a_tracker_that_is_not_installed_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    run = begin(tmp_path / "run", "wandb")
    with pytest.raises(ConfigError, match=r"trackers: wandb is not installed .*rl\[trackers\]"):  # noqa: SIM117
        with tracked(run):
            pass
