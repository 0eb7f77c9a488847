"""Reads new lines of a run's files into its index, a bounded portion at a time."""

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from assay_shared.errors import DatasetError
from assay_shared.runs.regular_file import open_regular, reason_of
from assay_trainer.browser.reading.lines import FoundLine, whole_lines
from assay_trainer.browser.reading.parsing import IndexedGroup, IndexedSample, parse_line
from assay_trainer.rollouts.rollout_log import DISCARDED, DISCARDED_OLDER, OLDER

#: Files with groups: trained, then discarded; the older ones first.
FILES = (OLDER, "rollouts.jsonl", DISCARDED_OLDER, DISCARDED)
#: A sample's id is its group's id times this number, plus its place and 1.
SAMPLES_PER_GROUP = 4096
_MOST_PROBLEMS = 1000
#: Bytes of a file's beginning that tell it from another file with the same inode.
_PRINT_BYTES = 1024
_LIVES, _SUPERSEDED = b'"superseded":false,', b'"superseded":true ,'
_HEAD_BYTES = 64


@dataclass
class _File:
    """A file with groups, and how far it is indexed."""

    id: int
    path: Path
    position: int
    num_lines: int


class IndexBuilder:
    """One portion of work on an index, inside of a transaction of `db`."""

    def __init__(self, db: sqlite3.Connection, run: Path, deadline: float) -> None:
        self._db = db
        self._run = run
        self._deadline = deadline
        #: The files that cannot be read, each with the reason.
        self.unreadable: dict[str, str] = {}

    def build(self) -> int:
        """Index new lines until the deadline; return the bytes that are left."""
        left = 0
        for file in self._present_files():
            with open_regular(file.path) as content:
                self._supersede(file, content)
                self._add_lines(file, content)
                left += os.fstat(content.fileno()).st_size - file.position
            self._db.execute(
                "UPDATE files SET position = ?, num_lines = ? WHERE id = ?",
                (file.position, file.num_lines, file.id),
            )
        return left

    def _present_files(self) -> list[_File]:
        """Return the run's files; forget the groups of files that are gone or were replaced."""
        found = []
        for name in FILES:
            path = self._run / name
            try:
                found.append(self._file(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                self.unreadable[name] = reason_of(error)
        known = {row[0] for row in self._db.execute("SELECT id FROM files")}
        for gone in known - {file.id for file in found}:
            self._forget(gone)
        return found

    def _file(self, path: Path) -> _File:
        with open_regular(path) as content:
            status = os.fstat(content.fileno())
            print_bytes = min(_PRINT_BYTES, status.st_size)
            rows = self._db.execute(
                "SELECT id, print_bytes, print, position, num_lines FROM files "
                "WHERE dev = ? AND ino = ? ORDER BY id DESC",
                (status.st_dev, status.st_ino),
            ).fetchall()
            for number, length, digest, position, num_lines in rows:
                if position <= status.st_size and _print_of(content, length) == digest:
                    self._db.execute(
                        "UPDATE files SET name = ?, print_bytes = ?, print = ? WHERE id = ?",
                        (path.name, print_bytes, _print_of(content, print_bytes), number),
                    )
                    return _File(number, path, position, num_lines)
            cursor = self._db.execute(
                "INSERT INTO files (name, dev, ino, print_bytes, print, position, num_lines) "
                "VALUES (?, ?, ?, ?, ?, 0, 0)",
                (
                    *(path.name, status.st_dev, status.st_ino),
                    *(print_bytes, _print_of(content, print_bytes)),
                ),
            )
            return _File(int(cursor.lastrowid or 0), path, 0, 0)

    def _forget(self, file_id: int) -> None:
        """Delete a file's rows; its trigrams stay, and a search drops them for lack of a text."""
        ids = "SELECT id FROM groups WHERE file_id = ?"
        samples = f"SELECT id FROM samples WHERE group_id IN ({ids})"
        for statement in (
            f"DELETE FROM texts WHERE id IN ({samples})",
            f"DELETE FROM parts WHERE id IN ({samples})",
            f"DELETE FROM samples WHERE group_id IN ({ids})",
            "DELETE FROM groups WHERE file_id = ?",
            "DELETE FROM problems WHERE file_id = ?",
            "DELETE FROM files WHERE id = ?",
        ):
            self._db.execute(statement, (file_id,))

    def _supersede(self, file: _File, content: BufferedReader) -> None:
        """Take over the marks that a resume left on lines which are indexed already.

        A resume marks the newest steps. So the last line without a mark tells if there are any.
        """
        last = self._db.execute(
            "SELECT id, offset FROM groups WHERE file_id = ? AND superseded = 0 "
            "ORDER BY id DESC LIMIT 1",
            (file.id,),
        ).fetchone()
        if last is None or not _is_superseded(content, last[1]):
            return
        rows = self._db.execute(
            "SELECT id, offset FROM groups WHERE file_id = ? AND superseded = 0", (file.id,)
        ).fetchall()
        marked = [(number,) for number, offset in rows if _is_superseded(content, offset)]
        self._db.executemany("UPDATE groups SET superseded = 1 WHERE id = ?", marked)
        first = [
            (n * SAMPLES_PER_GROUP, n * SAMPLES_PER_GROUP + SAMPLES_PER_GROUP) for (n,) in marked
        ]
        self._db.executemany("UPDATE samples SET superseded = 1 WHERE id >= ? AND id < ?", first)

    def _add_lines(self, file: _File, content: BufferedReader) -> None:
        for line in whole_lines(content, file.position):
            file.num_lines += 1
            self._add_line(file, line)
            file.position = line.offset + line.length
            if time.monotonic() > self._deadline:
                return

    def _add_line(self, file: _File, line: FoundLine) -> None:
        problem = line.problem
        if not problem:
            try:
                self._add_group(file, line, parse_line(line.content))
                return
            except DatasetError as error:
                problem = f"{error.field or 'the line'}: {error.message}"[:300]
        number = self._db.execute("SELECT count(*) FROM problems").fetchone()[0]
        if number < _MOST_PROBLEMS:
            self._db.execute(
                "INSERT INTO problems (file_id, line, offset, reason) VALUES (?, ?, ?, ?)",
                (file.id, file.num_lines, line.offset, problem),
            )

    def _add_group(self, file: _File, line: FoundLine, group: IndexedGroup) -> None:
        task = self._number_of("tasks", ("name", "dataset", "tags"))(
            group.task, group.dataset, group.tags
        )
        if len(group.samples) >= SAMPLES_PER_GROUP:
            told = f"{len(group.samples)} samples; a group has fewer than {SAMPLES_PER_GROUP}"
            raise DatasetError(told, field="group.rollouts")
        cursor = self._db.execute(
            "INSERT INTO groups (file_id, offset, length, line, step, superseded, reason, key, "
            "task_id, version, generate_s, score_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(file.id, line.offset, line.length, file.num_lines, group.step, group.superseded),
                *(group.reason, group.key, task, group.version, group.generate_s, group.score_s),
            ),
        )
        number = int(cursor.lastrowid or 0)
        for sample in group.samples:
            self._add_sample(number, task, group, sample)

    def _add_sample(
        self, number: int, task: int, group: IndexedGroup, sample: IndexedSample
    ) -> None:
        sample_id = number * SAMPLES_PER_GROUP + sample.place + 1
        self._db.execute(
            "INSERT INTO samples (id, group_id, place, step, superseded, reason, task_id, outcome, "
            "failure_class, reward, num_tokens) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(sample_id, number, sample.place, group.step, group.superseded, group.reason),
                *(task, sample.outcome, sample.failure_class, sample.reward, sample.num_tokens),
            ),
        )
        self._db.execute("INSERT INTO texts VALUES (?, ?)", (sample_id, sample.text))
        self._db.execute(
            "INSERT INTO trigrams (rowid, text) VALUES (?, ?)", (sample_id, sample.text)
        )
        for name, value in sample.parts.items():
            name_id = self._number_of("part_names", ("name",))(name)
            self._db.execute(
                "INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", (sample_id, name_id, value)
            )

    def _number_of(self, table: str, columns: tuple[str, ...]) -> Callable[..., int]:
        """Return a function from a row's values to its id, with a new row for new values."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        same = " AND ".join(f"{name} = ?" for name in columns)

        def find(*values: str) -> int:
            row = self._db.execute(f"SELECT id FROM {table} WHERE {same}", values).fetchone()
            if row is None:
                added = f"INSERT INTO {table} ({names}) VALUES ({marks})"
                return int(self._db.execute(added, values).lastrowid or 0)
            return int(row[0])

        return find


def _print_of(content: BufferedReader, length: int) -> str:
    """Return the digest of a file's first bytes, with the mark on its first line left out."""
    beginning = os.pread(content.fileno(), length, 0).replace(_SUPERSEDED, _LIVES)
    return hashlib.sha256(beginning).hexdigest()


def _is_superseded(content: BufferedReader, offset: int) -> bool:
    return _SUPERSEDED in os.pread(content.fileno(), _HEAD_BYTES, offset)
