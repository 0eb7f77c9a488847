"""Experiment trackers of a run, fed from its events.

The event of each step gives its numbers: a field of `sft_step` becomes `sft/FIELD`. The stage of a
curriculum becomes `grpo/curriculum_stage/STAGE`, with the value 1. Only rank 0 has events, so only
rank 0 logs.
"""

import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

from pydantic import JsonValue

from assay_shared.errors import ConfigError
from assay_shared.runs.run_folder import Event
from assay_trainer.config import TrackerName
from assay_trainer.endings import message_of
from assay_trainer.events import STAGES
from assay_trainer.pipeline.context import RunContext

_PROJECT = "assay"
#: The extra that installs a tracker's module.
_EXTRAS: dict[TrackerName, str] = {
    "tensorboard": "trainer",
    "wandb": "trackers",
    "mlflow": "trackers",
    "trackio": "trackers",
}
#: Unless the environment has others. MLflow sends each step while training waits, so the wait is
#: bounded; without a server, it writes files to the run's folder.
_MLFLOW_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_ALLOW_FILE_STORE": "true",
}


class StepNumbers(NamedTuple):
    """The numbers of a step's event by tag; each tag begins with its stage."""

    stage: str
    step: int
    values: dict[str, float]


class Tracker(Protocol):
    """A tracker's own record of a run."""

    @property
    def id(self) -> str | None:
        """Name the record, so that a resumed run continues it; None if the folder says enough."""

    def log(self, numbers: StepNumbers) -> None: ...

    def close(self, failed: bool) -> None: ...


def numbers_of(event: Event) -> StepNumbers | None:
    """Return the numbers of a step's event; None for an event of another kind."""
    stage, step = STAGES.get(event.kind), event.data.get("step")
    if stage is None or not isinstance(step, int):
        return None
    values = {f"{stage}/{name}": one for name, one in _flat(event.data) if name != "step"}
    return StepNumbers(stage, step, values)


def _flat(data: Mapping[str, JsonValue]) -> Iterator[tuple[str, float]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from ((f"{name}/{inner}", one) for inner, one in _flat(value))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, float(value)
        elif name == "curriculum_stage" and isinstance(value, str):
            yield f"{name}/{value}", 1.0


class _TensorBoard:
    def __init__(self, run: RunContext, known_id: str | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.id: str | None = None
        self._folder = run.folder.path / "tensorboard"
        self._open: Callable[..., SummaryWriter] = SummaryWriter
        self._writers: dict[str, SummaryWriter] = {}

    def log(self, numbers: StepNumbers) -> None:
        if numbers.stage not in self._writers:
            # A resumed stage repeats steps: what an earlier process wrote of them goes.
            folder = str(self._folder / numbers.stage)
            self._writers[numbers.stage] = self._open(folder, purge_step=numbers.step)
        writer = self._writers[numbers.stage]
        for tag, value in numbers.values.items():
            writer.add_scalar(tag, value, numbers.step)
        writer.flush()

    def close(self, failed: bool) -> None:
        for writer in self._writers.values():
            writer.close()


class _WandB:
    def __init__(self, run: RunContext, known_id: str | None) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            name=run.name,
            id=known_id,
            resume="allow",
            dir=run.folder.path,
            config=run.config.model_dump(mode="json"),
            settings=wandb.Settings(console="off", silent=True),
        )
        self.id = self._run.id
        self._stages: set[str] = set()

    def log(self, numbers: StepNumbers) -> None:
        axis = f"{numbers.stage}/step"
        if numbers.stage not in self._stages:
            # W&B's own step never goes back, while each stage counts from 1.
            self._run.define_metric(f"{numbers.stage}/*", step_metric=axis)
            self._stages.add(numbers.stage)
        self._run.log({axis: numbers.step, **numbers.values})

    def close(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


class _MLflow:
    def __init__(self, run: RunContext, known_id: str | None) -> None:
        for name, value in _MLFLOW_DEFAULTS.items():
            os.environ.setdefault(name, value)
        import mlflow
        from mlflow.entities import Metric

        self._metric = Metric
        where = (
            os.environ.get("MLFLOW_TRACKING_URI") or (run.folder.path / "mlruns").resolve().as_uri()
        )
        self._client = mlflow.MlflowClient(where)
        self.id = known_id or self._create(os.environ.get("MLFLOW_EXPERIMENT_NAME"), run.name)
        self._client.update_run(self.id, status="RUNNING")

    def _create(self, experiment: str | None, name: str) -> str:
        found = self._client.get_experiment_by_name(experiment or _PROJECT)
        at = (
            found.experiment_id if found else self._client.create_experiment(experiment or _PROJECT)
        )
        return str(self._client.create_run(at, run_name=name).info.run_id)

    def log(self, numbers: StepNumbers) -> None:
        now_ms = int(time.time() * 1000)
        metrics = [self._metric(t, v, now_ms, numbers.step) for t, v in numbers.values.items()]
        self._client.log_batch(self.id, metrics=metrics)

    def close(self, failed: bool) -> None:
        self._client.set_terminated(self.id, "FAILED" if failed else "FINISHED")


class _Trackio:
    def __init__(self, run: RunContext, known_id: str | None) -> None:
        import trackio

        self.id = known_id or run.name
        config = run.config.model_dump(mode="json")
        self._run: Any = trackio.init(
            project=_PROJECT, name=self.id, resume="allow", config=config, embed=False
        )

    def log(self, numbers: StepNumbers) -> None:
        self._run.log(numbers.values, step=numbers.step)

    def close(self, failed: bool) -> None:
        self._run.finish()


_KINDS: dict[TrackerName, Callable[[RunContext, str | None], Tracker]] = {
    "tensorboard": _TensorBoard,
    "wandb": _WandB,
    "mlflow": _MLflow,
    "trackio": _Trackio,
}


class Trackers:
    """The working trackers of a run. A tracker that fails is recorded and dropped."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._open: dict[str, Tracker] = {}
        known = {
            event.data["tracker"]: event.data["id"]
            for event in run.folder.read_events()
            if event.kind == "tracking"
        }
        for name in run.config.trackers:
            self._try(name, partial(self._begin, name, known.get(name)))

    def _begin(self, name: TrackerName, known_id: JsonValue) -> None:
        tracker = _KINDS[name](self._run, None if known_id is None else str(known_id))
        self._open[name] = tracker
        if tracker.id is not None and known_id is None:
            self._run.record("tracking", tracker=name, id=tracker.id)

    def show(self, event: Event) -> None:
        """Pass the numbers of an event to every tracker."""
        numbers = numbers_of(event)
        if numbers is not None:
            for name, tracker in list(self._open.items()):
                self._try(name, partial(tracker.log, numbers))

    def close(self, failed: bool) -> None:
        for name, tracker in list(self._open.items()):
            self._try(name, partial(tracker.close, failed))

    def _try(self, name: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001  # a tracker may raise anything, and costs only itself
            self._open.pop(name, None)
            self._run.record("tracker_dropped", tracker=name, message=message_of(error))


def check_trackers(names: tuple[TrackerName, ...]) -> None:
    """
    Raises:
        ConfigError: a tracker is not installed.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ConfigError(
                f"{name} is not installed",
                field="trackers",
                hint=f"pip install 'assay-rl[{_EXTRAS[name]}]', or leave {name} out",
            )


@contextmanager
def tracked(run: RunContext) -> Iterator[None]:
    """Pass the events of the block to the run's trackers.

    Raises:
        ConfigError: a tracker is not installed.
    """
    check_trackers(run.config.trackers)
    trackers = Trackers(run)
    run.listen(trackers.show)
    try:
        yield
    except BaseException:
        trackers.close(failed=True)
        raise
    trackers.close(failed=False)
