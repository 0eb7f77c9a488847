"""Runs of a service that ended hard: the next service resumes them, a bounded number of times.

`.started` lies in the folder of a run that a service trains, until somebody stops the run. A
service that is told to stop marks its runs; one that is killed, or loses its machine, cannot.
"""

from pathlib import Path

from pydantic import BaseModel, ValidationError

from assay_shared.runs.run_folder import RunFolder, write_atomically

_STARTED = ".started"
#: Hard ends in a row without a new checkpoint: a run that fills its memory would do so again.
_MAX_TRIES = 5


class _Tries(BaseModel):
    """Content of `.started`: the hard ends since the last new checkpoint, and the checkpoints."""

    num_ends: int = 0
    checkpoints: list[str] = []


def note_started(folder: Path) -> None:
    """Note that the run in `folder` is to be trained by a service."""
    write_atomically(folder / _STARTED, _Tries().model_dump_json())


def forget_started(folder: Path) -> None:
    """Note that no service may resume the run without a request."""
    (folder / _STARTED).unlink(missing_ok=True)


def find_interrupted(runs: Path) -> list[str]:
    """Return the runs whose service ended before they did, the first that was started first."""
    marks = sorted(runs.glob(f"*/{_STARTED}"), key=lambda mark: mark.stat().st_mtime)
    folders = [RunFolder(mark.parent) for mark in marks]
    unended = ("created", "queued", "running", "stopped")
    return [one.path.name for one in folders if one.read_status_or_damage().state in unended]


def may_resume(folder: RunFolder) -> bool:
    """Count a hard end of a run; return False if there were too many without a new checkpoint."""
    mark = folder.path / _STARTED
    try:
        tries = _Tries.model_validate_json(mark.read_text())
    except ValidationError:
        tries = _Tries()
    found = [
        str(path.relative_to(folder.path))
        for pattern in ("checkpoints/*/*", "models/*")
        for path in folder.path.glob(pattern)
    ]
    is_new = not set(found) <= set(tries.checkpoints)
    num_ends = 1 if is_new else tries.num_ends + 1
    seen = sorted({*tries.checkpoints, *found})
    write_atomically(mark, _Tries(num_ends=num_ends, checkpoints=seen).model_dump_json())
    return num_ends <= _MAX_TRIES
