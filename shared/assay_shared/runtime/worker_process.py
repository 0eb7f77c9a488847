"""The process behind `workers`: it imports what the calls need, and forks a child for each slot.

A slot is a socket on which one child takes one call after the other. In: a JSON line `{"number",
"function", "args", "cpu_s", "wall_s"}`. Out: a JSON line with the same number and a `result`, an
`error` (as `errors.to_body` writes it) or `spent`. When a child ends within a call, this process
writes `{"died": signal}` in its place and forks the next one.
"""

import gc
import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from assay_shared.errors import AssayError, InternalFault, to_body
from assay_shared.runtime.processes import tie_to, tie_to_parent

_OF_SHORT_CALLS, _OF_LONG_CALLS = 1, 19
#: A third of the share of a session that gives way to nobody.
_SESSION_NICE = "5"
#: What these say of a call: its memory or its stack is used up.
_SPENT = (MemoryError, RecursionError)


def main(settings: dict[str, Any]) -> None:
    """Serve all slots until the parent closes their sockets."""
    tie_to_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in settings["modules"]:
        module = importlib.import_module(name)
        getattr(module, "warm_up", lambda: None)()
    if settings["prepare"]:
        function, *args = settings["prepare"]
        _find(function)(*args)
    most = settings["memory_bytes"]
    if settings["room_bytes"] is not None:
        most = _mapped_bytes() + settings["room_bytes"]
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    gc.freeze()  # the children share it
    niceness = {int(slot): nice for slot, nice in settings["slots"].items()}
    modules = settings["modules"]
    running = {_fork(slot, nice, niceness, modules): slot for slot, nice in niceness.items()}
    while running:
        ended, status = os.wait()
        slot = running.pop(ended)
        code = os.waitstatus_to_exitcode(status)
        if code == 0 or not _tell(slot, {"died": -code}):
            continue
        running[_fork(slot, niceness[slot], niceness, modules)] = slot


def _mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _fork(slot: int, nice: int, slots: dict[int, int], modules: Sequence[str]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    tie_to(parent)
    for other in slots:
        if other != slot:
            os.close(other)
    _give_way(nice)
    if nice <= _OF_SHORT_CALLS:
        _freshen(modules)
    _serve(slot)


def _freshen(modules: Sequence[str]) -> None:
    """Let the modules do what the first call would otherwise have to.

    A child shares memory with its parent, and copies what it touches: its first call takes three
    times as long as the next, and would seem to be a long one.
    """
    for name in modules:
        getattr(sys.modules[name], "freshen", lambda: None)()


def _give_way(nice: int) -> None:
    os.nice(nice)
    if nice >= _OF_LONG_CALLS:
        # Linux shares processor time between sessions first, whatever their processes' niceness.
        os.setsid()
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(_SESSION_NICE)


def _serve(slot: int) -> NoReturn:
    with os.fdopen(slot, "rb", closefd=False) as calls:
        for line in calls:
            try:
                call = json.loads(line)
            except ValueError:  # the rest of a call that ended with the child before
                continue
            if not _tell(slot, {"number": call["number"]} | _answer(call)):
                break
    os._exit(0)


def _answer(call: dict[str, Any]) -> dict[str, object]:
    # Their signals end the process, whatever it does: no library can catch or delay them.
    signal.setitimer(signal.ITIMER_PROF, call["cpu_s"])
    signal.setitimer(signal.ITIMER_REAL, call["wall_s"])
    try:
        return {"result": _find(call["function"])(*call["args"])}
    except _SPENT as error:
        return {"spent": type(error).__name__}
    except AssayError as error:
        return {"error": to_body(error, "", None).model_dump(mode="json")}
    except Exception as error:  # noqa: BLE001  # libraries raise anything on hostile texts
        fault = InternalFault(f"{type(error).__name__}: {error!s:.200}")
        return {"error": to_body(fault, "", None).model_dump(mode="json")}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _find(function: str) -> Callable[..., object]:
    module, _, name = function.partition(":")
    found: Callable[..., object] = getattr(importlib.import_module(module), name)
    return found


def _tell(slot: int, reply: dict[str, object]) -> bool:
    """Write a reply; returns whether anybody is there to read it."""
    # The line break ends what a child that died may have begun to write.
    left = b"\n" + json.dumps(reply).encode() + b"\n"
    try:
        while left:
            left = left[os.write(slot, left) :]
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
