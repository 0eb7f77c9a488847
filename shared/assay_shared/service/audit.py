"""Audit log of control actions: a JSON line for each with actor, time and outcome.

The lines go to a separate logger. If a route's declaration names an action (`auth.needs`), each
call is audited, refused calls too. A handler adds details (a version, a run) with `note`.
"""

import fcntl
import getpass
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from assay_shared.service.auth import CLIENT, action_of
from assay_shared.settings.environment import OWN, ServiceSettings
from assay_shared.telemetry.logs import JsonFormatter

_log = logging.getLogger("assay.audit")
#: Name of a client with the service's own token: another part of Assay.
MESH = "mesh"
_details: ContextVar[dict[str, object] | None] = ContextVar("audit_details", default=None)
_REFUSED = frozenset({401, 403, 429})
_CLIENT_GONE = 499


def note(**details: object) -> None:
    """Add details to the audit line of the current request; do nothing outside a request."""
    noted = _details.get()
    if noted is not None:
        noted.update(details)


def record(action: str, outcome: str, *, who: str, **details: object) -> None:
    """Write an audit line."""
    fields = {"action": action, "outcome": outcome, "who": who, "details": details}
    _log.info("%s: %s", action, outcome, extra=fields)


@contextmanager
def recorded(action: str, **details: object) -> Iterator[None]:
    """Write an audit line for a command of this machine's user when the block ends or raises."""
    outcome = "failed"
    try:
        yield
        outcome = "done"
    finally:
        record(action, outcome, who=f"user {_user()}", **details)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


class Audit:
    """ASGI middleware that writes a line for each call of a route with an action."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, status, details = time.perf_counter(), 500, dict[str, object]()

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        token = _details.set(details)
        try:
            await self._app(scope, receive, send_on)
        finally:
            _details.reset(token)
            action = action_of(scope.get("route"))
            if action is not None:
                measured = {"status": status, "took_s": round(time.perf_counter() - started, 3)}
                told = dict(scope.get("path_params", {})) | details | measured
                record(action, _outcome(status), who=_who(scope), **told)


def _who(scope: Connection) -> str:
    """Return the client's name, or its address if it has no name."""
    name = scope.get(CLIENT)
    if name is None:
        return f"address {(scope.get('client') or ('unknown',))[0]}"
    return MESH if name == OWN else str(name)


def _outcome(status: int) -> str:
    if status < 400:
        return "done"
    if status in _REFUSED:
        return "refused"
    if status == _CLIENT_GONE:
        return "client gone"
    return "rejected" if status < 500 else "failed"


class AuditFile(logging.Handler):
    """Log handler that appends to a file shared by several processes, and rotates a full file.

    `file.1` is the newest rotated file; at most `num_kept` rotated files are kept.
    """

    def __init__(self, path: Path, max_bytes: int, num_kept: int) -> None:
        super().__init__()
        self._path = path
        self._max_bytes = max_bytes
        self._num_kept = num_kept

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record's line; logging reports a failed write on standard error."""
        line = self.format(record) + "\n"
        try:
            self._append(line.encode())
        except OSError:
            self.handleError(record)

    def _append(self, line: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = self._path.with_name(self._path.name + ".lock")
        with lock.open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # held until the file is closed
            if self._path.exists() and self._path.stat().st_size + len(line) > self._max_bytes:
                self._set_aside()
            with self._path.open("ab") as file:
                file.write(line)

    def _set_aside(self) -> None:
        for number in range(self._num_kept, 0, -1):
            newer = self._aside(number - 1) if number > 1 else self._path
            if newer.exists():
                newer.replace(self._aside(number))

    def _aside(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def set_up_audit(service: str, settings: ServiceSettings, *, shown: bool = True) -> None:
    """Send audit lines to the file in the settings, if any, and if `shown`, also to the log.

    The log's level does not apply to audit lines.
    """
    _log.setLevel(logging.INFO)
    _log.propagate = shown
    for old in list(_log.handlers):
        _log.removeHandler(old)
    if settings.audit_file is not None:
        file = AuditFile(
            settings.audit_file, settings.audit_file_max_bytes, settings.audit_files_kept
        )
        file.setFormatter(JsonFormatter(service))
        _log.addHandler(file)
