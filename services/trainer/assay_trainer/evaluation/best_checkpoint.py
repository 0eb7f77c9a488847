"""best_checkpoint.json of a run: the checkpoint with the best value of a held-out metric."""

from pathlib import Path

from pydantic import ValidationError

from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import write_atomically
from assay_shared.types.wire import Wire

NAME = "best_checkpoint.json"


class MeasuredCheckpoint(Wire):
    """A checkpoint with the metric's value; `folder` is relative to the run's."""

    stage: str
    #: Null for the model at a stage's end.
    step: int | None
    folder: str
    value: float
    low: float
    high: float


class BestCheckpoint(MeasuredCheckpoint):
    """The best of the measured checkpoints, and the metric that says so."""

    set: str
    metric: str
    measured: tuple[MeasuredCheckpoint, ...]


def read_best(run: Path) -> BestCheckpoint | None:
    """Return the best checkpoint of a run; None without one.

    Raises:
        DatasetError: the file cannot be read.
    """
    path = run / NAME
    try:
        return BestCheckpoint.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise DatasetError(f"{path}: {first['msg']}") from None


def write_best(run: Path, best: BestCheckpoint) -> None:
    write_atomically(run / NAME, best.model_dump_json(indent=1) + "\n")
