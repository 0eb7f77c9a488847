"""The log of played tasks: a line for each, so that an interrupted comparison resumes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from assay_reward.workflows.comparison.samples import WorkflowSample
from assay_shared.errors import Conflict, DatasetError
from assay_shared.runs.run_folder import append_line
from assay_shared.types.wire import Wire

#: A header is shorter, also with the digests of 100,000 tasks.
_MAX_HEADER = 2**22


class PlayHeader(Wire):
    """The first line of a log: what a resumed command must share with the first one."""

    kind: Literal["header"] = "header"
    facts: dict[str, str]


class PlayedLine(Wire):
    """All samples of a task."""

    kind: Literal["task"] = "task"
    task_id: str
    samples: tuple[WorkflowSample, ...]


class PlayLog:
    """The played tasks of a file; `samples` are by task id."""

    def __init__(self, path: Path, facts: Mapping[str, str]) -> None:
        """Open a log, or begin it.

        Raises:
            Conflict: the file is of other tasks or settings; names the field.
            DatasetError: a line cannot be read.
        """
        self._path = path
        self.samples: dict[str, Sequence[WorkflowSample]] = {}
        begin_or_check(path, facts)
        for line in kept_lines(path):
            if line.get("kind") == "task":
                played = PlayedLine.model_validate(line)
                self.samples[played.task_id] = played.samples

    def add(self, task_id: str, samples: Sequence[WorkflowSample]) -> None:
        """Append a task's samples."""
        line = PlayedLine(task_id=task_id, samples=tuple(samples))
        append_line(self._path, line.model_dump_json())
        self.samples[task_id] = samples


def begin_or_check(path: Path, facts: Mapping[str, str]) -> None:
    """Write the header of a new log, or compare that of an old one; errors as in `PlayLog`."""
    if not _has_header(path):
        append_line(path, PlayHeader(facts=dict(facts)).model_dump_json())
        return
    header = PlayHeader.model_validate(next(kept_lines(path), {}))
    for name, value in facts.items():
        if header.facts.get(name) != value:
            raise Conflict(
                f"{path} was begun with other {name}: {header.facts.get(name)}, now {value}",
                field=name,
                hint="resume with the same settings, or name a new folder",
            )


def _has_header(path: Path) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as file:
        return b"\n" in file.read(_MAX_HEADER)


def kept_lines(path: Path) -> Iterator[dict[str, object]]:
    """Yield the lines of a log; a killed command may have left an unfinished last line.

    Raises:
        DatasetError: another line is not a JSON object; names it.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                found = json.loads(line)
            except ValueError as error:
                raise DatasetError(f"{path}:{number}: not JSON: {error}") from None
            if not isinstance(found, dict):
                raise DatasetError(f"{path}:{number}: not a JSON object")
            yield found
