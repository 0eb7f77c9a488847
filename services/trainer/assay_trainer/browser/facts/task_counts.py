"""Counts of a run's tasks: by set, role, domain and source, and repeated ones."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from assay_shared.runs.regular_file import open_regular, reason_of
from assay_trainer.browser.reading.lines import whole_lines
from assay_trainer.events import DataOpened

#: Tasks that are counted; of a longer file, the rest is left out.
MOST_TASKS = 200_000
#: Classes that are told apart; tasks of further ones are counted as one.
MOST_CLASSES = 2000
MOST_NAME = 200
_MOST_DAMAGED = 20
_TRAINING, _HELD_OUT = "training", "held-out"
_OTHERS = "others"


@dataclass(frozen=True, order=True)
class TaskClass:
    """Tasks with the same set, role, domain and source."""

    set: str
    role: str
    domain: str
    source: str


@dataclass
class TaskCounts:
    """The tasks counted so far.

    `bytes_left` is what is not read yet, `bytes_over` what is never read.
    """

    classes: Counter[TaskClass] = field(default_factory=Counter)
    #: The domains that are tags of tasks, which samples can be filtered by.
    tagged: set[str] = field(default_factory=set)
    #: Training tasks that ask what an earlier one asks.
    num_repeated: int = 0
    #: Held-out tasks that ask what a training task asks.
    num_shared: int = 0
    num_tasks: int = 0
    bytes_left: int = 0
    bytes_over: int = 0
    num_damaged: int = 0
    damaged: list[str] = field(default_factory=list)
    unreadable: str = ""
    is_missing: bool = False

    def copied(self) -> "TaskCounts":
        """Return a copy that later counting does not change."""
        own = Counter(self.classes), set(self.tagged), [*self.damaged]
        return replace(self, classes=own[0], tagged=own[1], damaged=own[2])

    def by_domain(self, name: str) -> Counter[str]:
        """Return the tasks of a set by domain."""
        found: Counter[str] = Counter()
        for one, number in self.classes.items():
            if one.set == name:
                found[one.domain] += number
        return found

    def by_set(self) -> Counter[str]:
        """Return the counted tasks by set."""
        found: Counter[str] = Counter()
        for one, number in self.classes.items():
            found[one.set] += number
        return found


class TaskCounter:
    """Counts the tasks of a run's file as far as the time allows. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: tuple[object, ...] | None = None
        self._begin()

    def _begin(self) -> None:
        self._position = self._line = 0
        self._counts = TaskCounts()
        #: Hashes of the questions so far, and whether a training task asks them.
        self._asked: dict[int, bool] = {}

    def update(self, file: Path, opened: DataOpened | None, budget_s: float) -> TaskCounts:
        """Read on for about `budget_s` seconds; return the counts.

        `opened` tells how many tasks at the beginning of the file are for training; without it,
        their roles tell.
        """
        deadline = time.monotonic() + budget_s
        num_train = None if opened is None else opened.num_train
        with self._lock:
            try:
                with open_regular(file) as content:
                    status = os.fstat(content.fileno())
                    key = (status.st_ino, status.st_size, status.st_mtime_ns, num_train)
                    if key != self._key:
                        self._begin()
                        self._key = key
                    self._read(whole_lines(content, self._position), num_train, deadline)
                    self._count_rest(status.st_size)
            except FileNotFoundError:
                return TaskCounts(is_missing=True)
            except OSError as error:
                return TaskCounts(unreadable=reason_of(error))
            return self._counts.copied()

    def _count_rest(self, size: int) -> None:
        """Note what is left of a file of `size` bytes."""
        left = size - self._position
        is_full = self._line >= MOST_TASKS
        self._counts.bytes_left, self._counts.bytes_over = (0, left) if is_full else (left, 0)
        if is_full or left == 0:
            self._asked = {}  # nothing more is compared

    def _read(self, lines: Iterable[Any], num_train: int | None, deadline: float) -> None:
        if self._line >= MOST_TASKS:
            return
        for line in lines:
            self._position = line.offset + line.length
            self._line += 1
            try:
                if line.problem:
                    raise ValueError(line.problem)
                self._take(from_json(line.content), num_train)
            except (ValueError, TypeError, RecursionError) as error:
                self._note_damage(line.offset, str(error))
            if self._line >= MOST_TASKS or time.monotonic() > deadline:
                return

    def _note_damage(self, offset: int, reason: str) -> None:
        counts = self._counts
        counts.num_damaged += 1
        if len(counts.damaged) < _MOST_DAMAGED:
            place = f"tasks.jsonl:{self._line} (byte {offset})"
            counts.damaged.append(f"damaged line {place}: {reason[:300]}")

    def _take(self, task: object, num_train: int | None) -> None:
        if not isinstance(task, dict):
            raise TypeError("it is not an object")
        tags = task.get("tags")
        tags = tags if isinstance(tags, dict) else {}
        source, role = _name(task.get("dataset", "")), _name(task.get("role", ""))
        domain = _name(tags["domain"]) if "domain" in tags else source
        is_training = self._line <= num_train if num_train is not None else role == "train"
        found = TaskClass(_TRAINING if is_training else _HELD_OUT, role, domain, source)
        counts = self._counts
        if found not in counts.classes and len(counts.classes) >= MOST_CLASSES:
            found = TaskClass(found.set, role if role in _ROLES else _OTHERS, _OTHERS, _OTHERS)
        elif "domain" in tags:
            counts.tagged.add(domain)
        counts.classes[found] += 1
        counts.num_tasks += 1
        self._compare(task, is_training)

    def _compare(self, task: dict[str, Any], is_training: bool) -> None:
        """Count a task that asks what an earlier one asks."""
        asked = [task.get(name) for name in ("history", "prompt", "environment")]
        digest = hash(tuple(one if isinstance(one, str) else repr(one) for one in asked))
        earlier = self._asked.get(digest)
        if earlier:
            self._counts.num_repeated += is_training
            self._counts.num_shared += not is_training
        self._asked[digest] = bool(earlier) or is_training


_ROLES = ("train", "validation", "test")


def _name(value: object) -> str:
    return str(value)[:MOST_NAME]
