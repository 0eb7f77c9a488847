"""A published format: its row in the table of formats, and checked access to a row's fields."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from assay_shared.errors import DatasetError
from assay_shared.text.strict_json import read_strict_json
from assay_shared.types import Role, Task
from assay_trainer.data.rows import Layout

_MAX_SHOWN = 80


class RowKind(StrEnum):
    """The rows of an imported folder."""

    #: Problems with the means to score an answer.
    TASKS = "tasks"
    #: Answers to learn from.
    DEMONSTRATIONS = "demonstrations"
    #: A better and a worse answer to each prompt.
    PREFERENCES = "preferences"


class OtherSplit(DatasetError):
    """A row of another split than the one imported."""


@dataclass(frozen=True)
class Place:
    """The place of a row: its split with its role, its number from 0, and its file's name."""

    split: str
    role: Role
    number: int
    stem: str

    def wants(self, split: str) -> None:
        """Check the split that a row states.

        Raises:
            OtherSplit: the row is of another split.
        """
        if split != self.split:
            raise OtherSplit(f"is of split {split}, not {self.split}", field="split")


@dataclass(frozen=True)
class ImportedRow:
    """A row as a task.

    `question` is the prompt as published, without Assay's instructions and without options, and
    `options` are these, without labels. `rejected` is the worse answer of a preference, and
    `task.gold` the better one.
    """

    task: Task
    question: str
    rejected: str | None = None
    options: tuple[str, ...] = ()


class Row:
    """A published row. Each method raises DatasetError with the field if its value is wrong."""

    def __init__(self, value: object) -> None:
        if not isinstance(value, Mapping):
            raise DatasetError(f"a row must be an object, not {_kind(value)}")
        self.value: Mapping[str, Any] = value

    def __contains__(self, name: str) -> bool:
        return self.value.get(name) is not None

    def text(self, name: str) -> str:
        """Return a text that is not empty."""
        value = self.get(name)
        if not isinstance(value, str):
            raise DatasetError(f"must be a text, not {_kind(value)}", field=name)
        if not value.strip():
            raise DatasetError("must not be empty", field=name)
        return value

    def maybe_text(self, name: str) -> str:
        """Return a text; an empty one without a value."""
        value = self.value.get(name)
        if value is not None and not isinstance(value, str):
            raise DatasetError(f"must be a text, not {_kind(value)}", field=name)
        return value or ""

    def number_or_text(self, name: str) -> str:
        """Return a text, or a number as text: a whole float without its point."""
        value = self.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        return self.text(name)

    def whole(self, name: str) -> int:
        """Return a whole number, also from its digits."""
        value = self.get(name)
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise DatasetError(f"must be a whole number, not {_shown(value)}", field=name)
        return value

    def items(self, name: str) -> list[Any]:
        """Return a list."""
        value = self.get(name)
        if not isinstance(value, list | tuple):
            raise DatasetError(f"must be a list, not {_kind(value)}", field=name)
        return list(value)

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        found = self.items(name)
        for at, one in enumerate(found):
            if not isinstance(one, str):
                raise DatasetError(f"must be a text, not {_kind(one)}", field=f"{name}.{at}")
        return found

    def part(self, name: str) -> "Row":
        """Return an object in the row."""
        value = self.get(name)
        if not isinstance(value, Mapping):
            raise DatasetError(f"must be an object, not {_kind(value)}", field=name)
        return Row(value)

    def parsed(self, name: str) -> Any:
        """Return the value of a JSON text."""
        try:
            return read_strict_json(self.text(name), takes_nan=True)
        except json.JSONDecodeError as error:
            raise DatasetError(f"not JSON: {error.msg}", field=name) from None
        except ValueError as error:
            raise DatasetError(f"not JSON that can be read: {error}", field=name) from None

    def get(self, name: str) -> Any:
        """Return a value that must be there."""
        if name not in self.value:
            have = ", ".join(map(str, list(self.value)[:20]))
            raise DatasetError(f"is missing. There are: {have}", field=name)
        return self.value[name]


@dataclass(frozen=True)
class PublishedFormat:
    """A row of the table of formats."""

    name: str
    domain: str
    licence: str
    #: The role of each split.
    roles: Mapping[str, Role]
    #: The rubric of its tasks; several where it depends on the row.
    rubric: str
    #: Shapes of rows that were read from real files; the others are by their description.
    verified: tuple[str, ...]
    unverified: tuple[str, ...]
    read: Callable[[Row, Place], Iterable[ImportedRow]]
    kind: RowKind = RowKind.TASKS
    layout: Layout = field(default_factory=Layout)
    #: A split by another name.
    same_split: Mapping[str, str] = field(default_factory=dict)

    def role_of(self, split: str) -> Role:
        """Return the role of a split.

        Raises:
            DatasetError: the format has no such split.
        """
        if split not in self.roles:
            raise DatasetError(
                f"{self.name} has no split {split}",
                field="--split",
                hint=f"there are {', '.join(self.roles)}",
            )
        return self.roles[split]


def fenced(program: str) -> str:
    """Return a program as an answer in a chat: in a fenced block, with Unix ends of lines."""
    return f"```python\n{program.replace(chr(13), '').strip(chr(10))}\n```"


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _shown(value: object) -> str:
    return repr(value)[:_MAX_SHOWN]
