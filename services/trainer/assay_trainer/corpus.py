"""The tasks of a dataset beside each other: what is right for one and wrong for another."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay_shared.answers.quantity import parse_quantity
from assay_shared.types import Task
from assay_shared.words import normalise

#: So many others are looked at for one whose answer differs.
_MAX_LOOKS = 64


class Corpus:
    """Tasks by rubric: only those of the same kind have answers of the same form."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._by_kind: dict[str, list[Task]] = defaultdict(list)
        self._places: dict[str, int] = {}
        self._typical_by_kind: dict[str, _Typical] = {}
        for task in tasks:
            if task.gold is not None:
                alike = self._by_kind[_kind(task)]
                self._places[task.id] = len(alike)
                alike.append(task)

    def others(self, task: Task, num: int) -> list[str]:
        """Up to `num` gold answers of other tasks that are not right for this one."""
        found: list[str] = []
        value = value_of(task)
        for other in self._neighbours(task):
            if len(found) == num:
                break
            if value_of(other) != value:
                found.append(other.gold or "")
        return found

    def _neighbours(self, task: Task) -> Iterator[Task]:
        alike = self._by_kind[_kind(task)]
        start = self._places.get(task.id, 0)
        for step in range(1, min(_MAX_LOOKS, len(alike))):
            yield alike[(start + step) % len(alike)]

    def most_frequent(self, task: Task) -> str:
        """The answer that is right most often among tasks of this kind."""
        return self._typical(task).most_frequent

    def longest(self, task: Task) -> str:
        """The longest gold answer among tasks of this kind."""
        return self._typical(task).longest

    def _typical(self, task: Task) -> "_Typical":
        kind = _kind(task)
        if kind not in self._typical_by_kind:
            self._typical_by_kind[kind] = _Typical.of(self._by_kind[kind])
        return self._typical_by_kind[kind]


@dataclass(frozen=True)
class _Typical:
    """Of tasks of one kind; empty where there are none."""

    most_frequent: str
    longest: str

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> "_Typical":
        counts = Counter(task.reference or task.gold or "" for task in tasks)
        most = max(counts, key=lambda text: (counts[text], text), default="")
        return cls(most, max((task.gold or "" for task in tasks), key=len, default=""))


def _kind(task: Task) -> str:
    return f"{task.rubric} {task.tags.get('domain', '')}"


def value_of(task: Task) -> object:
    """What an answer must come to, as far as it can be told without the rubric."""
    text = task.reference or task.gold or ""
    quantity = parse_quantity(text)
    return normalise(text) if quantity is None else quantity.value
