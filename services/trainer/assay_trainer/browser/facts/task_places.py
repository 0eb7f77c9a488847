"""Where the tasks of an evaluation stand in its file, so that one is read without the others."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from assay_shared.errors import NotFound
from assay_shared.runs.regular_file import open_regular
from assay_trainer.comparison.arms import ComparedTask
from assay_trainer.comparison.loading import task_of
from assay_trainer.evaluation.evaluator import TaskResult

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True)
class TaskPlaces:
    """First byte and length of each task of a file, by its id."""

    file: Path
    places: dict[str, tuple[int, int]]

    def read(self, task_id: str) -> ComparedTask:
        """Return a task.

        Raises:
            NotFound: the file lacks it, or was replaced.
        """
        if task_id not in self.places:
            raise NotFound(f"no task {task_id!r:.200} is in {self.file}")
        first, length = self.places[task_id]
        try:
            with open_regular(self.file) as content:
                content.seek(first)
                found = TaskResult.model_validate_json(content.read(length))
        except (OSError, ValidationError):
            raise NotFound(f"{self.file} was replaced", hint="ask again") from None
        if found.task_id != task_id:
            raise NotFound(f"{self.file} was replaced", hint="ask again")
        return task_of(found)


def places_of(file: Path) -> TaskPlaces:
    """Return the places of the tasks of an evaluation that is valid."""
    content = file.read_bytes()
    # In Latin-1, each byte is a character: places in the text are places in the file.
    text = content.decode("latin-1")
    found = {}
    for first, end in _results(text):
        task_id = str(json.loads(content[first:end])["task_id"])
        found[task_id] = first, end - first
    return TaskPlaces(file, found)


def _results(text: str) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each object of `results`."""
    at = _after_space(text, _after_space(text, 0) + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _after_space(text, _after_space(text, at) + 1)  # the colon
        if name == "results":
            yield from _elements(text, at)
        _, at = _DECODER.raw_decode(text, at)
        at = _after_space(text, at)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _elements(text: str, at: int) -> Iterator[tuple[int, int]]:
    at = _after_space(text, at + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
