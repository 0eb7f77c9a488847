"""The index of a run as an SQLite file outside of the run's folder: reading changes no run."""

import hashlib
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from assay_shared.errors import ConfigError, NotReady

#: Index files kept in a folder; the ones that were longest unused go first.
_MOST_FILES = 64
_BUSY_MS = 5000
#: Of the database that a connection keeps in memory.
_CACHE_KIB = 8192
#: Raised with each change of the tables: an older file is made again.
_VERSION = 3
#: With FTS5's trigrams.
_OLDEST_SQLITE = (3, 34)
_TABLES = """
CREATE TABLE files (id INTEGER PRIMARY KEY, name TEXT, dev INTEGER, ino INTEGER,
    print_bytes INTEGER, print TEXT, position INTEGER, num_lines INTEGER);
CREATE TABLE groups (id INTEGER PRIMARY KEY, file_id INTEGER, offset INTEGER, length INTEGER,
    line INTEGER, step INTEGER, superseded INTEGER, reason TEXT, key TEXT, task_id INTEGER,
    version INTEGER, generate_s REAL, score_s REAL);
CREATE INDEX groups_by_step ON groups (step, id);
CREATE INDEX groups_by_key ON groups (key);
CREATE INDEX groups_by_file ON groups (file_id, id);
CREATE INDEX superseded_groups ON groups (id) WHERE superseded = 1;
CREATE TABLE tasks (id INTEGER PRIMARY KEY, name TEXT, dataset TEXT, tags TEXT,
    UNIQUE (name, dataset, tags));
CREATE TABLE samples (id INTEGER PRIMARY KEY, group_id INTEGER, place INTEGER, step INTEGER,
    superseded INTEGER, reason TEXT, task_id INTEGER, outcome TEXT, failure_class TEXT,
    reward REAL, num_tokens INTEGER);
CREATE INDEX samples_in_order ON samples (step, id);
CREATE INDEX samples_by_outcome ON samples (outcome, failure_class, step, id);
CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT);
CREATE VIRTUAL TABLE trigrams USING fts5(text, content='', detail=none, columnsize=0,
    tokenize='trigram');
CREATE TABLE part_names (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE parts (id INTEGER, name_id INTEGER, value REAL, PRIMARY KEY (id, name_id))
    WITHOUT ROWID;
CREATE TABLE problems (id INTEGER PRIMARY KEY, file_id INTEGER, line INTEGER, offset INTEGER,
    reason TEXT);
"""


def index_file(run: Path, folder: Path | None = None) -> Path:
    """Return the place of a run's index in `folder`, else in this user's cache.

    Raises:
        ConfigError: no folder can be used.
    """
    home = _made(folder) if folder is not None else None
    home = home or _user_folder()
    real = run.resolve()
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    found = home / f"{real.name[:80]}-{digest}.sqlite"
    if not found.exists():
        _drop_oldest(home)
    return found


def _made(folder: Path) -> Path | None:
    """Return a folder, made if it was missing; None if this user cannot write to it."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(folder, os.W_OK):
            return folder
    return None


def _user_folder() -> Path:
    """Return a folder that belongs to this user alone: the cache, else one in the temporary folder.

    Raises:
        ConfigError: another user made that folder.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    found_home = _made(cache / "assay" / "browser")
    if found_home is not None:
        return found_home
    home = Path(tempfile.gettempdir()) / f"assay-browser-{os.getuid()}"
    home.mkdir(exist_ok=True, mode=0o700)
    found = home.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"{home} belongs to another user", hint="set XDG_CACHE_HOME")
    return home


def _drop_oldest(home: Path) -> None:
    """Make room for a new index file."""
    files = []
    for path in home.glob("*.sqlite"):
        with suppress(OSError):
            files.append((path.stat().st_mtime, path))
    for _, path in sorted(files)[: max(0, len(files) - _MOST_FILES + 1)]:
        remove(path)


def remove(path: Path) -> None:
    """Delete an index file; the next reader makes it again."""
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection; a damaged or older file is made again.

    Raises:
        NotReady: the file is in use, or cannot be written; or it was damaged and is removed.
        ConfigError: Python's SQLite is too old.
    """
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise ConfigError(f"Python's SQLite is {sqlite3.sqlite_version}; 3.34 or newer is needed")
    try:
        with closing(_connect_or_renew(path)) as connection:
            yield connection
    except sqlite3.OperationalError as error:
        raise NotReady(f"the index {path} cannot be used: {error}") from None
    except sqlite3.DatabaseError as error:
        remove(path)
        raise NotReady(f"the index {path} was damaged: {error}", hint="ask again") from None


def _connect_or_renew(path: Path) -> sqlite3.Connection:
    try:
        return _connect(path)
    except sqlite3.OperationalError:
        raise  # a lock, or a full disk: the file may be good
    except sqlite3.DatabaseError:
        remove(path)
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_MS / 1000, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")  # it can be made again
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        _make_tables(connection)
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, _VERSION):
        connection.execute("ROLLBACK")
        raise sqlite3.DatabaseError(f"of version {version}")
    if version == 0:
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={_VERSION}")
    connection.execute("COMMIT")
