"""rollouts.jsonl: every trained group; discarded.jsonl: every other group, with the reason.

A run resumed from a checkpoint repeats the later steps. The groups of the first attempt stay in
the files, marked as superseded.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import append_line
from assay_shared.types import ScoredGroup

#: Rollouts that were set aside; what is older is gone.
OLDER = "rollouts.older.jsonl"
#: Groups that were not trained on, and the older ones of them.
DISCARDED, DISCARDED_OLDER = "discarded.jsonl", "discarded.older.jsonl"
# The two have one length, so that a line is marked in its place.
_LIVES, _SUPERSEDED = b'"superseded":false,', b'"superseded":true ,'
_HEAD = re.compile(rb'\{"step":(\d+),("superseded":(?:false|true ),)')
_HEAD_BYTES = 64


class TrainedGroup(ScoredGroup):
    """A line of rollouts.jsonl: a group and its training step."""

    step: int
    #: Whether a resume from an earlier step has replaced this one.
    superseded: bool = False


class DiscardedGroup(TrainedGroup):
    """A line of discarded.jsonl: a group collected for `step` that was not trained on."""

    #: A value of `DiscardReason`.
    reason: str


_Group = TypeVar("_Group", bound=TrainedGroup)


def append_rollout(path: Path, scored: ScoredGroup, step: int, max_bytes: int) -> None:
    """Add a group. At half of `max_bytes` the groups are set aside, and the older ones go."""
    line = f'{{"step":{step},{_LIVES.decode()}{scored.model_dump_json()[1:]}'
    _append(path, path.with_name(OLDER), line, max_bytes)


def append_discarded(
    rollouts: Path, scored: ScoredGroup, step: int, reason: str, max_bytes: int
) -> None:
    """Add a group to discarded.jsonl next to `rollouts`, with the limit of `append_rollout`."""
    content = scored.model_dump_json()[1:]
    line = f'{{"step":{step},{_LIVES.decode()}"reason":{json.dumps(reason)},{content}'
    path = rollouts.with_name(DISCARDED)
    _append(path, rollouts.with_name(DISCARDED_OLDER), line, max_bytes)


def _append(path: Path, older: Path, line: str, max_bytes: int) -> None:
    if path.exists() and path.stat().st_size + len(line) > max_bytes // 2:
        path.replace(older)
    append_line(path, line)


def mark_superseded(path: Path, after_step: int) -> int:
    """Mark the groups of all steps after `after_step`, discarded groups too.

    Returns how many groups of `path` and its older file were marked now.
    """
    for name in (DISCARDED_OLDER, DISCARDED):
        if path.with_name(name).exists():
            _mark(path.with_name(name), after_step)
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
    return chain(_read(path.with_name(OLDER), TrainedGroup), _read(path, TrainedGroup))


def read_discarded(rollouts: Path) -> Iterator[DiscardedGroup]:
    """Yield the groups of discarded.jsonl next to `rollouts`, as `read_rollouts` does.

    Raises:
        DatasetError: a line cannot be read; names it.
    """
    files = [rollouts.with_name(name) for name in (DISCARDED_OLDER, DISCARDED)]
    return chain.from_iterable(_read(file, DiscardedGroup) for file in files)


def _read(path: Path, kind: type[_Group]) -> Iterator[_Group]:
    if not path.exists():
        return
    with path.open() as file:
        for number, line in enumerate(file, start=1):
            if line.endswith("\n"):
                try:
                    yield kind.model_validate_json(line)
                except ValidationError as error:
                    first = error.errors()[0]
                    name = ".".join(map(str, first["loc"])) or None
                    raise DatasetError(f"{path}:{number}: {first['msg']}", field=name) from None
