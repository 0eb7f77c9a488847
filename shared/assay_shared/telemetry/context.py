"""Context of the current work: ids that follow it through every process into every log line."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, NamedTuple, TypeVar

REQUEST_ID_HEADER = "x-request-id"
PRIORITY_HEADER = "x-assay-priority"
RUN_HEADER = "x-assay-run"
DEADLINE_HEADER = "x-assay-deadline-s"
#: Log fields that identify the work; they travel to other processes (`propagation`).
WORK_IDS = ("run", "step", "group", "sample")


#: Ids need not be hard to guess, and the system's randomness costs a system call for each id.
_ids = random.Random()
os.register_at_fork(after_in_child=_ids.seed)


class WorkPurpose(NamedTuple):
    """Purpose of a generation: inference orders its queue by it. Empty fields are unknown."""

    priority: str = ""
    run: str = ""
    deadline_s: float | None = None

    def headers(self) -> dict[str, str]:
        """Return the purpose as headers, for another process."""
        deadline = "" if self.deadline_s is None else f"{self.deadline_s:g}"
        given = {PRIORITY_HEADER: self.priority, RUN_HEADER: self.run, DEADLINE_HEADER: deadline}
        return {name: value for name, value in given.items() if value}


T = TypeVar("T")


class _Within(Generic[T]):
    """Context manager for the value of a variable; a generator would cost three times as much."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
_client: ContextVar[str] = ContextVar("client", default="")
_purpose: ContextVar[WorkPurpose | None] = ContextVar("purpose", default=None)
_fields: ContextVar[dict[str, object] | None] = ContextVar("log_fields", default=None)


def request_id() -> str | None:
    """Return the id of the current request, or None."""
    return _request_id.get()


def new_request_id() -> str:
    return f"{_ids.getrandbits(128):032x}"


def client() -> str:
    """Return the current client: the name of a token or, without tokens, an address."""
    return _client.get()


def client_scope(name: str) -> _Within[str]:
    """Return a context manager that sets the client of the work in its block."""
    return _Within(_client, name)


def purpose() -> WorkPurpose:
    """Return the purpose of the current work."""
    return _purpose.get() or WorkPurpose()


def set_purpose(purpose: WorkPurpose) -> None:
    """Set the purpose for the rest of the current task."""
    _purpose.set(purpose)


def purpose_scope(purpose: WorkPurpose) -> _Within[WorkPurpose | None]:
    """Return a context manager that sets the purpose of generations in its block."""
    return _Within(_purpose, purpose)


def request_scope(identifier: str) -> _Within[str | None]:
    """Return a context manager; in its block, clients send `identifier` and log lines have it."""
    return _Within(_request_id, identifier)


@contextmanager
def log_fields(**fields: object) -> Iterator[None]:
    """Add fields (run, step, group, sample) to log lines in the block; None removes a field."""
    token = _fields.set((_fields.get() or {}) | fields)
    try:
        yield
    finally:
        _fields.reset(token)


def note_log_fields(**fields: object) -> None:
    """Add log fields for the rest of the current task, or of the `log_fields` around it."""
    _fields.set((_fields.get() or {}) | fields)


def current_log_fields() -> dict[str, object]:
    identifier = request_id()
    fields = {} if identifier is None else {"request_id": identifier}
    return fields | {
        name: value for name, value in (_fields.get() or {}).items() if value is not None
    }


def current_work() -> dict[str, str | int]:
    """Return the ids of the current run, step, group and sample, as far as known."""
    fields = _fields.get()
    if not fields:
        return {}
    known = ((name, fields.get(name)) for name in WORK_IDS)
    return {name: value for name, value in known if isinstance(value, str | int)}
