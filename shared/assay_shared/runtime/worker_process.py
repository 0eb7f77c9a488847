"""The process behind `workers`: imports the modules of the calls, and forks a child for each slot.

A slot is a socket; its child takes calls one after the other. In: a JSON line `{"number",
"function", "args", "cpu_s", "wall_s"}`. Out: a JSON line with the same number and a `result`, an
`error` (as `errors.to_body` writes it) or `spent`. When a child ends within a call, this process
writes `{"died": signal}` in its place and forks the next child.
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
#: Autogroup niceness: the session gets a third of a normal session's processor time.
_SESSION_NICE = "5"
#: Exceptions of a call that has used up its memory or its stack.
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
    gc.freeze()  # so that the children share these objects instead of copying them
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
    """Call `freshen` of the modules, to do the slow work of a first call in advance.

    A child shares memory with its parent and copies each page it touches. Its first call takes
    three times as long as the next, and would be taken for a long call.
    """
    for name in modules:
        getattr(sys.modules[name], "freshen", lambda: None)()


def _give_way(nice: int) -> None:
    os.nice(nice)
    if nice >= _OF_LONG_CALLS:
        # Linux first divides processor time between sessions, regardless of process niceness.
        os.setsid()
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(_SESSION_NICE)


def _serve(slot: int) -> NoReturn:
    with os.fdopen(slot, "rb", closefd=False) as calls:
        for line in calls:
            try:
                call = json.loads(line)
            except ValueError:  # the rest of a call to the previous child
                continue
            if not _tell(slot, {"number": call["number"]} | _answer(call)):
                break
    os._exit(0)


def _answer(call: dict[str, Any]) -> dict[str, object]:
    # Without handlers, the timers' signals end the process; no Python code can delay them.
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
    """Write a reply; return False if the parent has closed the socket."""
    # The line break ends a partial reply of a dead child.
    left = b"\n" + json.dumps(reply).encode() + b"\n"
    try:
        while left:
            left = left[os.write(slot, left) :]
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
