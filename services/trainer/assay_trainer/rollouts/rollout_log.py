"""rollouts.jsonl: every trained group, and a mark on superseded groups.

A run resumed from a checkpoint repeats the later steps. The groups of the first attempt stay in
the file, marked as superseded.
"""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from pydantic import ValidationError

from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import append_line
from assay_shared.types import ScoredGroup

#: Rollouts that were set aside; what is older is gone.
OLDER = "rollouts.older.jsonl"
# The two have one length, so that a line is marked in its place.
_LIVES, _SUPERSEDED = b'"superseded":false,', b'"superseded":true ,'
_HEAD = re.compile(rb'\{"step":(\d+),("superseded":(?:false|true ),)')
_HEAD_BYTES = 64


class TrainedGroup(ScoredGroup):
    """A line of rollouts.jsonl: a group and its training step."""

    step: int
    #: Whether a resume from an earlier step has replaced this one.
    superseded: bool = False


def append_rollout(path: Path, scored: ScoredGroup, step: int, max_bytes: int) -> None:
    """Add a group. At half of `max_bytes` the groups are set aside, and the older ones go."""
    line = f'{{"step":{step},{_LIVES.decode()}{scored.model_dump_json()[1:]}'
    if path.exists() and path.stat().st_size + len(line) > max_bytes // 2:
        path.replace(path.with_name(OLDER))
    append_line(path, line)


def mark_superseded(path: Path, after_step: int) -> int:
    """Mark the groups of all steps after `after_step`; returns how many were marked now."""
    return sum(_mark(file, after_step) for file in (path.with_name(OLDER), path) if file.exists())


def _mark(path: Path, after_step: int) -> int:
    num_marked = 0
    with path.open("r+b") as file:
        while True:
            begin = file.tell()
            line = file.readline()
            if not line:
                return num_marked
            head = _HEAD.match(line[:_HEAD_BYTES])
            if head and int(head[1]) > after_step and head[2] == _LIVES:
                end = file.tell()
                file.seek(begin + head.start(2))
                file.write(_SUPERSEDED)
                file.seek(end)
                num_marked += 1


def read_rollouts(path: Path) -> Iterator[TrainedGroup]:
    """Yield all groups, oldest first; an unfinished last line is skipped.

    Raises:
        DatasetError: a line cannot be read; names it.
    """
    return chain(_read(path.with_name(OLDER)), _read(path))


def _read(path: Path) -> Iterator[TrainedGroup]:
    if not path.exists():
        return
    with path.open() as file:
        for number, line in enumerate(file, start=1):
            if line.endswith("\n"):
                try:
                    yield TrainedGroup.model_validate_json(line)
                except ValidationError as error:
                    first = error.errors()[0]
                    name = ".".join(map(str, first["loc"])) or None
                    raise DatasetError(f"{path}:{number}: {first['msg']}", field=name) from None
