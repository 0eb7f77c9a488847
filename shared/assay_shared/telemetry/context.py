"""Ids that follow one piece of work through every hop and into every log line."""

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
#: Log fields that say which work it is: they go along to other processes (`hops`).
WORK_IDS = ("run", "step", "group", "sample")


#: Ids need not be hard to guess, and asking the system for each of them costs a system call.
_ids = random.Random()
os.register_at_fork(after_in_child=_ids.seed)


class WorkPurpose(NamedTuple):
    """What a generation is for: by this inference orders those that wait. Empty: not said."""

    priority: str = ""
    run: str = ""
    deadline_s: float | None = None

    def headers(self) -> dict[str, str]:
        """As it crosses a process boundary."""
        deadline = "" if self.deadline_s is None else f"{self.deadline_s:g}"
        given = {PRIORITY_HEADER: self.priority, RUN_HEADER: self.run, DEADLINE_HEADER: deadline}
        return {name: value for name, value in given.items() if value}


T = TypeVar("T")


class _Within(Generic[T]):
    """A block in which a variable has a value: a third of what it costs as a generator."""

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
    """The id of the request in hand, if there is one."""
    return _request_id.get()


def new_request_id() -> str:
    return f"{_ids.getrandbits(128):032x}"


def client() -> str:
    """Who asks: the name of a token or, without tokens, an address."""
    return _client.get()


def client_scope(name: str) -> _Within[str]:
    """Within it, work is done for this client."""
    return _Within(_client, name)


def purpose() -> WorkPurpose:
    """What the work in hand is for."""
    return _purpose.get() or WorkPurpose()


def set_purpose(purpose: WorkPurpose) -> None:
    """For the rest of the present task."""
    _purpose.set(purpose)


def purpose_scope(purpose: WorkPurpose) -> _Within[WorkPurpose | None]:
    """Within it, generations are asked for with this purpose."""
    return _Within(_purpose, purpose)


def request_scope(identifier: str) -> _Within[str | None]:
    """Within it, clients send `identifier` on and log lines bear it."""
    return _Within(_request_id, identifier)


@contextmanager
def log_fields(**fields: object) -> Iterator[None]:
    """Within it, log lines bear these fields (run, step, group, sample); None takes one away."""
    token = _fields.set((_fields.get() or {}) | fields)
    try:
        yield
    finally:
        _fields.reset(token)


def note_log_fields(**fields: object) -> None:
    """For the rest of the present task, or of the `log_fields` around it."""
    _fields.set((_fields.get() or {}) | fields)


def current_log_fields() -> dict[str, object]:
    identifier = request_id()
    fields = {} if identifier is None else {"request_id": identifier}
    return fields | {
        name: value for name, value in (_fields.get() or {}).items() if value is not None
    }


def current_work() -> dict[str, str | int]:
    """Which run, step, group and sample is in hand, as far as that is known."""
    fields = _fields.get()
    if not fields:
        return {}
    known = ((name, fields.get(name)) for name in WORK_IDS)
    return {name: value for name, value in known if isinstance(value, str | int)}
