"""Ids that follow one piece of work through every hop and into every log line."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

REQUEST_ID_HEADER = "x-request-id"

_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
_client: ContextVar[str] = ContextVar("client", default="")
_fields: ContextVar[dict[str, object] | None] = ContextVar("log_fields", default=None)


def request_id() -> str | None:
    """The id of the request in hand, if there is one."""
    return _request_id.get()


def new_request_id() -> str:
    return uuid.uuid4().hex


def client() -> str:
    """Who asks: the name of a token or, without tokens, an address."""
    return _client.get()


@contextmanager
def client_scope(name: str) -> Iterator[None]:
    """Within it, work is done for this client."""
    token = _client.set(name)
    try:
        yield
    finally:
        _client.reset(token)


@contextmanager
def request_scope(identifier: str) -> Iterator[None]:
    """Within it, clients send `identifier` on and log lines bear it."""
    token = _request_id.set(identifier)
    try:
        yield
    finally:
        _request_id.reset(token)


@contextmanager
def log_fields(**fields: object) -> Iterator[None]:
    """Within it, log lines bear these fields (run, step, group, sample)."""
    token = _fields.set((_fields.get() or {}) | fields)
    try:
        yield
    finally:
        _fields.reset(token)


def current_log_fields() -> dict[str, object]:
    identifier = request_id()
    return ({"request_id": identifier} if identifier else {}) | (_fields.get() or {})
