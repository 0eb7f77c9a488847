"""The end of a run: an event, its cause in the status, and a traceback for unexpected errors."""

import logging
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import JsonValue

from assay_shared.errors import AssayError
from assay_shared.runs.run_folder import Event, RunFolder, RunStatus
from assay_trainer.stop import Stopped

Written = TypeVar("Written")

_log = logging.getLogger(__name__)

FAILURES = "failures"
_MESSAGE_CHARACTERS = 4000
_TRACEBACK_BYTES = 32 * 1024


@contextmanager
def ending(folder: RunFolder, owner: str, show: Callable[[Event], None]) -> Iterator[None]:
    """Record an end in the folder if the block raises.

    The process that holds the run enters this block. If the process before it ended without a
    record, that end is recorded first.

    Args:
        owner: this process, for the status.
        show: gets each event recorded here.
    """
    try:
        status = folder.read_status_or_damage()
        if status.state == "running":
            show(folder.record("run_failed", message=lost_message(status)))
        folder.reserve_room()
        folder.write_status(RunStatus(state="running", stage="starting", owner=owner))
        yield
        folder.release_room()
    except BaseException as error:
        event = _record_end(folder, error)
        if event is not None:
            show(event)
        raise


def _record_end(folder: RunFolder, error: BaseException) -> Event | None:
    """Write the end of an unfinished run; return the event if it could be written.

    Room reserved in the folder makes this work on a full disk. An unwritable part does not keep
    the other parts from being tried.
    """
    _try("the kept room", folder.release_room)
    stopped = isinstance(error, Stopped | KeyboardInterrupt)
    message = message_of(error)
    data: dict[str, JsonValue] = {"message": message}
    if not stopped and not isinstance(error, AssayError):
        name = _try("the traceback", lambda: _write_traceback(folder, error))
        data |= {"traceback": name} if name else {}
    state = "stopped" if stopped else "failed"
    event = _try("the event", lambda: folder.record(f"run_{state}", **data))
    status = folder.read_status_or_damage()
    ended = status.model_copy(update={"state": state, "message": message})
    _try("the status", lambda: folder.write_status(ended))
    return event


def lost_message(status: RunStatus) -> str:
    """Return the message about a run marked as running but held by no process."""
    owner = status.owner or "its process"
    return f"{owner} ended without a word: it was killed, or its machine went down"


def message_of(error: BaseException) -> str:
    """Return the error for people: with its class if it is not an Assay error."""
    text = str(error)
    if not isinstance(error, AssayError | KeyboardInterrupt):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    # Half a character, which some messages quote, cannot be written as UTF-8.
    return text.encode(errors="replace").decode()[:_MESSAGE_CHARACTERS]


def _write_traceback(folder: RunFolder, error: BaseException) -> str:
    """Write the traceback to a file; return its path from the run's folder."""
    text = "".join(traceback.format_exception(error))
    name = time.strftime(f"{FAILURES}/%Y%m%d-%H%M%S.txt")
    path = folder.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode(errors="replace")[-_TRACEBACK_BYTES:])
    return name


def _try(what: str, write: Callable[[], Written]) -> Written | None:
    try:
        return write()
    except (OSError, MemoryError) as error:
        _log.error("%s of the run's end could not be written: %s", what, error)
        return None
