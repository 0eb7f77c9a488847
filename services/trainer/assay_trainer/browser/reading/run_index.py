"""The index of a run: lists of groups by filters, and single groups from their place in a file."""

import json
import re
import sqlite3
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from assay_shared.errors import InvalidInput, NotFound
from assay_trainer.browser.reading.building import FILES, SAMPLES_PER_GROUP, IndexBuilder
from assay_trainer.browser.reading.filters import SampleFilter
from assay_trainer.browser.reading.lines import read_at, stamp_of
from assay_trainer.browser.reading.parsing import refusal
from assay_trainer.browser.reading.rows import GroupPage, GroupRow, SampleAddress, SampleCell
from assay_trainer.browser.reading.side_file import index_file, opened
from assay_trainer.rollouts.rollout_log import DiscardedGroup, TrainedGroup

_ATTEMPTS = 3
#: Of counts that are remembered.
_MOST_NUMBERS = 64
#: The end of a page: step and sample.
_AFTER = re.compile(r"(\d{1,18})\.(\d{1,18})")
#: A group's file and first byte.
_AT = "files.name || ':' || offset"
_FIND_GROUP = (
    "SELECT groups.id, files.name, files.dev, files.ino, offset, length, line, reason "
    "FROM groups JOIN files ON files.id = file_id WHERE "
)


@dataclass(frozen=True)
class IndexState:
    """What is indexed: numbers of living groups and samples, bytes left to read, damaged lines."""

    num_groups: int
    num_samples: int
    bytes_left: int
    num_problems: int


@dataclass(frozen=True)
class LineProblem:
    """A line that cannot be read: its file, its number from 1, its first byte, and the reason."""

    file: str
    line: int
    offset: int
    reason: str

    @property
    def told(self) -> str:
        """The line and the reason, for people."""
        return f"damaged line {self.file}:{self.line} (byte {self.offset}): {self.reason}"


class RunIndex:
    """The index of a run's folder. Threads and processes may share it."""

    def __init__(self, run: Path, home: Path | None = None) -> None:
        """Store the places; `home` is the folder of index files, the user's cache without one."""
        self.run = run
        self._path = index_file(run, home)
        self._building = threading.Lock()
        self._bytes_left = 0
        #: The files that could not be read last, each with the reason.
        self.unreadable: dict[str, str] = {}
        #: Of the files when all of them was read last.
        self._stamp: list[tuple[int, int, int] | None] | None = None
        self._numbers: dict[tuple[object, ...], int] = {}
        self._counted: tuple[object, Counter[tuple[str, str, str]]] | None = None

    def update(self, budget_s: float) -> IndexState:
        """Read new lines for about `budget_s` seconds; return the state."""
        if self._building.acquire(timeout=budget_s):
            try:
                self._build(time.monotonic() + budget_s)
            finally:
                self._building.release()
        return self.state()

    def _build(self, deadline: float) -> None:
        stamp = [stamp_of(self.run / name) for name in FILES]
        if stamp == self._stamp and self._path.exists():
            return
        with opened(self._path) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                builder = IndexBuilder(db, self.run, deadline)
                self._bytes_left = builder.build()
                db.execute("COMMIT")
                self.unreadable = builder.unreadable
                is_whole = self._bytes_left == 0 and not self.unreadable
                self._stamp = stamp if is_whole else None
            except BaseException:
                db.execute("ROLLBACK")
                raise

    def complete(self, told: Callable[[IndexState], None] | None = None) -> IndexState:
        """Read all new lines; a half-written last line is left for later."""
        before = -1
        while True:
            state = self.update(1.0)
            if told is not None:
                told(state)
            if state.bytes_left == before or state.bytes_left == 0:
                return state
            before = state.bytes_left

    def state(self) -> IndexState:
        """Return the state of the index as it is."""
        with self._reading() as db:
            groups = db.execute("SELECT count(*) FROM groups WHERE superseded = 0").fetchone()[0]
            problems = db.execute("SELECT count(*) FROM problems").fetchone()[0]
        samples = sum(self.counts().values())
        return IndexState(groups, samples, self._bytes_left, problems)

    def counts(self) -> Counter[tuple[str, str, str]]:
        """Count the living samples by reason of discarding, outcome and failure class."""
        with self._reading() as db:
            content = self._content(db)
            known = self._counted
            if known is not None and known[0] == content:
                return known[1]
            rows = db.execute(
                "SELECT reason, outcome, failure_class, count(*) FROM samples "
                "WHERE superseded = 0 GROUP BY 1, 2, 3"
            )
            counted = Counter({(reason, out, fail): n for reason, out, fail, n in rows})
        self._counted = content, counted
        return counted

    def _content(self, db: sqlite3.Connection) -> tuple[object, ...]:
        """Return a value that changes with what is indexed."""
        files = db.execute("SELECT id, position FROM files").fetchall()
        replaced = db.execute("SELECT count(*) FROM groups WHERE superseded = 1").fetchone()
        return (*files, replaced)

    def problems(self, limit: int = 20) -> list[LineProblem]:
        """Return the first damaged lines."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT files.name, line, offset, reason FROM problems "
                "JOIN files ON files.id = file_id ORDER BY problems.id LIMIT ?",
                (limit,),
            )
            return [LineProblem(*row) for row in rows]

    def part_names(self, limit: int = 100) -> list[str]:
        """Return the names of reward components."""
        with self._reading() as db:
            rows = db.execute("SELECT name FROM part_names ORDER BY name LIMIT ?", (limit,))
            return [name for (name,) in rows]

    def steps(self) -> tuple[int, int] | None:
        """Return the first and the last step with groups; None without groups."""
        with self._reading() as db:
            first, last = db.execute("SELECT min(step), max(step) FROM groups").fetchone()
        return None if first is None else (first, last)

    def times(self, num_steps: int) -> list[tuple[int, int, float, float]]:
        """Return the last steps, with number of groups and their mean generate_s and score_s."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT step, count(*), avg(generate_s), avg(score_s) FROM groups "
                "WHERE superseded = 0 AND step > (SELECT max(step) FROM groups) - ? "
                "GROUP BY step ORDER BY step",
                (num_steps,),
            )
            return [(step, number, made, scored) for step, number, made, scored in rows]

    def count(self, given: SampleFilter) -> int:
        """Return the number of samples that match; remembered until lines are added."""
        if given.is_empty:
            return sum(self.counts().values())
        condition, values = given.sql()
        with self._reading() as db:
            key = (given, *self._content(db))
            if key not in self._numbers:
                found = db.execute(f"SELECT count(*) FROM samples WHERE {condition}", values)
                self._numbers[key] = int(found.fetchone()[0])
                while len(self._numbers) > _MOST_NUMBERS:
                    self._numbers.pop(next(iter(self._numbers)), None)
            return self._numbers[key]

    def page(self, given: SampleFilter, limit: int, after: str = "") -> GroupPage:
        """Return groups with a matching sample, in the order of steps, after a place.

        `after` is the `after` of the page before.

        Raises:
            InvalidInput: it is not one.
        """
        condition, values = given.sql()
        if after:
            condition += " AND (step, id) > (?, ?)"
            values += _place_of(after)
        groups: dict[int, None] = {}
        matching: set[int] = set()
        is_last = True
        with self._reading() as db:
            for sample_id, group_id in db.execute(
                f"SELECT id, group_id FROM samples WHERE {condition} ORDER BY step, id", values
            ):
                if group_id not in groups and len(groups) == limit:
                    is_last = False
                    break
                groups[group_id] = None
                matching.add(sample_id)
            rows = self._rows(db, list(groups), matching)
        end = ""
        if rows and not is_last:
            end = f"{rows[-1].step}.{(rows[-1].id + 1) * SAMPLES_PER_GROUP - 1}"
        return GroupPage(tuple(rows), end)

    def _rows(
        self, db: sqlite3.Connection, ids: Sequence[int], matching: Container[int]
    ) -> list[GroupRow]:
        """Return the groups with these ids, in this order."""
        cells: dict[int, list[SampleCell]] = {number: [] for number in ids}
        wanted = json.dumps(list(ids))
        for sample_id, number, *row in db.execute(
            "SELECT samples.id, group_id, place, outcome, failure_class, reward, num_tokens "
            "FROM (SELECT value AS number FROM json_each(?)) AS wanted CROSS JOIN samples "
            f"WHERE samples.id >= wanted.number * {SAMPLES_PER_GROUP} "
            f"AND samples.id < (wanted.number + 1) * {SAMPLES_PER_GROUP} ORDER BY samples.id",
            (wanted,),
        ):
            cells[number].append(_cell(row, sample_id in matching))
        found = []
        for number in ids:
            group = db.execute(
                f"SELECT {_AT}, step, key, tasks.name, dataset, reason, superseded, version, "
                "generate_s, score_s FROM groups JOIN tasks ON tasks.id = task_id "
                "JOIN files ON files.id = file_id WHERE groups.id = ?",
                (number,),
            ).fetchone()
            found.append(_row(number, group, tuple(cells[number])))
        return found

    def row(self, group_id: int) -> GroupRow:
        """Return a group with the cells of its samples.

        Raises:
            NotFound: there is no such group.
        """
        with self._reading() as db:
            if not db.execute("SELECT 1 FROM groups WHERE id = ?", (group_id,)).fetchone():
                raise NotFound("the group is gone")
            first = group_id * SAMPLES_PER_GROUP
            return self._rows(db, [group_id], range(first, first + SAMPLES_PER_GROUP))[0]

    def neighbours(
        self, given: SampleFilter, group_id: int, place: int
    ) -> tuple[SampleAddress | None, SampleAddress | None]:
        """Return the matching samples before and after one."""
        condition, values = given.sql()
        here = group_id * SAMPLES_PER_GROUP + place + 1
        with self._reading() as db:
            step = db.execute("SELECT step FROM groups WHERE id = ?", (group_id,)).fetchone()
            if step is None:
                return None, None
            found = []
            for sign, direction in (("<", "DESC"), (">", "ASC")):
                row = db.execute(
                    f"SELECT group_id, place FROM samples WHERE {condition} "
                    f"AND (step, id) {sign} (?, ?) ORDER BY step {direction}, id {direction} "
                    "LIMIT 1",
                    (*values, step[0], here),
                ).fetchone()
                found.append(None if row is None else _address(db, *row))
        return found[0], found[1]

    def find(self, key: str, at: str = "") -> int:
        """Return the id of the group with a key: the one at `at`, else the newest living one.

        Raises:
            NotFound: there is no such group.
        """
        with self._reading() as db:
            row = db.execute(
                "SELECT groups.id FROM groups JOIN files ON files.id = file_id WHERE key = ? "
                f"ORDER BY {_AT} = ? DESC, superseded, groups.id DESC LIMIT 1",
                (key, at),
            ).fetchone()
        if row is None:
            raise NotFound(f"no group of this run has the key {key!r:.200}")
        return int(row[0])

    def all_ids(self) -> list[int]:
        """Return all living groups in the order of steps."""
        with self._reading() as db:
            rows = db.execute("SELECT id FROM groups WHERE superseded = 0 ORDER BY step, id")
            return [number for (number,) in rows]

    def matching(self, given: SampleFilter) -> Iterator[tuple[int, frozenset[int]]]:
        """Yield each group with a matching sample, in the order of steps, with their places."""
        condition, values = given.sql()
        with self._reading() as db:
            wanted = f"SELECT id FROM samples WHERE {condition} ORDER BY step, id"
            ids = array("q", (number for (number,) in db.execute(wanted, values)))
        for group_id, some in groupby(ids, lambda number: number // SAMPLES_PER_GROUP):
            yield group_id, frozenset(number % SAMPLES_PER_GROUP - 1 for number in some)

    def num_repeated(self) -> int:
        """Return how many living groups were trained on with a draw of an earlier one.

        A group's key begins with run and draw.
        """
        with self._reading() as db:
            row = db.execute(
                "SELECT count(*) - count(DISTINCT CAST(substr(key, ?) AS INTEGER)) FROM groups "
                "WHERE superseded = 0 AND reason = ''",
                (len(self.run.name) + 2,),
            ).fetchone()
        return int(row[0])

    def ids_of_step(self, step: int, limit: int, max_bytes: int) -> list[int]:
        """Return the groups that a step trained on; none if they exceed a limit."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT id, length FROM groups WHERE step = ? AND superseded = 0 AND reason = '' "
                "ORDER BY id LIMIT ?",
                (step, limit + 1),
            ).fetchall()
        is_too_much = len(rows) > limit or sum(length for _, length in rows) > max_bytes
        return [] if is_too_much else [number for number, _ in rows]

    def group(self, group_id: int) -> TrainedGroup:
        """Return a group from its file; a `DiscardedGroup` if it was not trained on.

        Raises:
            NotFound: its file is gone.
            DatasetError: its line is damaged; names file, line and field.
        """
        for _ in range(_ATTEMPTS):
            with self._reading() as db:
                row = db.execute(_FIND_GROUP + "groups.id = ?", (group_id,)).fetchone()
            if row is None:
                break
            _, name, dev, ino, offset, length, line, reason = row
            content = read_at(self.run / name, (dev, ino), offset, length)
            if content is not None:
                return _parsed(content, f"{name}:{line}", bool(reason))
            self.update(1.0)  # the file has another name by now
        raise NotFound("the file with this group is gone")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with opened(self._path) as db:
            yield db


def _address(db: sqlite3.Connection, group_id: int, place: int) -> SampleAddress:
    row = db.execute(
        f"SELECT key, {_AT} FROM groups JOIN files ON files.id = file_id WHERE groups.id = ?",
        (group_id,),
    ).fetchone()
    return SampleAddress(str(row[0]), place, str(row[1]))


def _place_of(after: str) -> tuple[int, int]:
    """Return the step and the sample that a page ended with."""
    found = _AFTER.fullmatch(after)
    if found is None:
        raise InvalidInput(
            f"{after!r:.80} is not the end of a page", field="after", hint="begin without it"
        )
    return int(found[1]), int(found[2])


def _cell(row: Sequence[Any], matches: bool) -> SampleCell:
    place, outcome, failure_class, reward, num_tokens = row
    return SampleCell(place, outcome, failure_class, reward, num_tokens, matches)


def _row(number: int, row: Sequence[Any], samples: tuple[SampleCell, ...]) -> GroupRow:
    at, step, key, task, dataset, reason, superseded, version, generate_s, score_s = row
    replaced = bool(superseded)
    return GroupRow(
        *(number, at, step, key, task, dataset, reason, replaced, version, generate_s, score_s),
        samples=samples,
    )


def _parsed(content: bytes, where: str, is_discarded: bool) -> TrainedGroup:
    kind = DiscardedGroup if is_discarded else TrainedGroup
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise refusal(error, f"{where}: ") from None
