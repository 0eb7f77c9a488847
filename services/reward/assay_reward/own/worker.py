"""The process of a reward function: `python -I worker.py FILE NAME SHA256 MEMORY_BYTES`.

It runs without Assay's packages and without Assay's environment. The first process is a guard and
runs no user code. It forks a process to load the function, and forwards calls to it. The guard
ends this process and all its children when a call takes too long or too much memory, and when the
service is gone.

A frame is a length in 4 bytes and JSON. Input: the time limit of the call in milliseconds, in
4 bytes, and a frame with `task`, `answers` and `arguments`. Output: a frame with `values` or
`error`, with `printed`, and with the number of bytes `cut` off from `printed`.
"""

import ctypes
import hashlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

LOAD_TIMEOUT_S = 60.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LOOK_EVERY_S = 0.05
_MAX_PRINTED_BYTES = 4096
_MAX_REPLY_BYTES = 2**20
_MAX_TEXT = 500


class WorkerEnded(Exception):
    """A call without a usable reply from the function's process; the message says why."""


class Gone(Exception):
    """End of the input: the service has closed its end."""


class Guard:
    """Parent of a process with the loaded function; replaces a process that it had to kill."""

    def __init__(self, serve: Callable[[socket.socket], NoReturn], memory_bytes: int) -> None:
        self._serve = serve
        self._memory_bytes = memory_bytes
        self._pid = 0
        self._socket: socket.socket | None = None
        self._output = -1
        self._printed = b""
        self._num_printed = 0

    def call(self, frame: bytes, timeout_s: float) -> dict[str, Any]:
        """Return the reply of the function's process to `frame`, or the reason of its failure."""
        self._printed, self._num_printed = b"", 0
        try:
            if self._socket is None:
                self._start()
                loaded = self._take(time.monotonic() + LOAD_TIMEOUT_S, f"{LOAD_TIMEOUT_S:g} s")
                if "error" in loaded:
                    raise WorkerEnded(loaded["error"])
            reply = self._ask(frame, timeout_s)
        except WorkerEnded as ended:
            self._drain()
            self.end()
            reply = {"error": str(ended)}
        else:
            self._end_all_but(self._pid)
            self._drain()
        printed = self._printed.decode(errors="replace")
        return reply | {"printed": printed, "cut": self._num_printed - len(self._printed)}

    def end(self) -> None:
        """Kill the function's process and all its descendants."""
        self._end_all_but(0)
        if self._socket is not None:
            self._socket.close()
            os.close(self._output)
        self._socket, self._pid = None, 0

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._output, output = os.pipe()
        guard = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                ours.close()
                os.close(self._output)
                _become_function_process(guard, output, self._memory_bytes)
                self._serve(theirs)
            finally:
                os._exit(1)
        theirs.close()
        os.close(output)
        os.set_blocking(self._output, False)
        self._socket = ours

    def _ask(self, frame: bytes, timeout_s: float) -> dict[str, Any]:
        assert self._socket is not None
        deadline = time.monotonic() + timeout_s
        self._socket.settimeout(timeout_s)
        try:
            self._socket.sendall(len(frame).to_bytes(4) + frame)
        except TimeoutError:
            raise WorkerEnded(f"took longer than {timeout_s:g} s") from None
        except OSError:
            raise WorkerEnded(self._how_it_ended()) from None
        return self._take(deadline, f"{timeout_s:g} s")

    def _take(self, deadline: float, limit: str) -> dict[str, Any]:
        """Return the next frame of the function's process; meanwhile read its printed output."""
        assert self._socket is not None
        received = b""
        sources: list[Any] = [self._socket, self._output, 0]
        looked_at = time.monotonic()
        while True:
            ready = select.select(sources, [], [], _LOOK_EVERY_S)[0]
            now = time.monotonic()
            if 0 in ready:  # input before a reply: the service has closed its end
                raise Gone
            if self._output in ready:
                self._drain()
            if self._socket in ready:
                piece = b""
                with suppress(OSError):
                    piece = self._socket.recv(2**16)
                if not piece:
                    raise WorkerEnded(self._how_it_ended())
                received += piece
                if len(received) > _MAX_REPLY_BYTES:
                    raise WorkerEnded("gave a reply that is too long")
                if len(received) >= 4 and len(received) - 4 >= int.from_bytes(received[:4]):
                    return _parse(received[4:])
            if now > deadline:
                raise WorkerEnded(f"took longer than {limit}")
            if now - looked_at > _LOOK_EVERY_S:
                looked_at = now
                self._check()

    def _how_it_ended(self) -> str:
        """Return a description of the process's end; wait a moment for the end if necessary."""
        for _ in range(20):
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                by = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
                return f"ended its process, {by}"
            time.sleep(_LOOK_EVERY_S / 5)
        return "closed the connection of its process"

    def _check(self) -> None:
        """Raise WorkerEnded if the function's process has ended, or memory exceeds the limit."""
        if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            raise WorkerEnded(self._how_it_ended())
        used = sum(map(resident_bytes, descendants(os.getpid())))
        if used > self._memory_bytes:
            raise WorkerEnded(f"took more memory than {self._memory_bytes} bytes")

    def _drain(self) -> None:
        """Read the pending printed output; keep the beginning of all output."""
        with suppress(BlockingIOError):
            for _ in range(64):  # otherwise endless output would escape the time limit
                text = os.read(self._output, 2**16)
                if not text:
                    return
                self._num_printed += len(text)
                self._printed += text[: _MAX_PRINTED_BYTES - len(self._printed)]

    def _end_all_but(self, spared: int) -> None:
        """Kill all processes below the guard except `spared`, until none is left.

        A process becomes a child of the guard when its parent ends, so no process can escape.
        """
        while found := [pid for pid in descendants(os.getpid()) if pid != spared]:
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in found:
                with suppress(ChildProcessError):  # a grandchild: its parent will reap it
                    os.waitpid(pid, 0)


def descendants(root: int) -> list[int]:
    """Return the ids of all living processes below `root`."""
    try:
        return _below(root)
    except FileNotFoundError:
        return _below_by_scan(root)


def _below(root: int) -> list[int]:
    """Return the same as `descendants`, from the kernel's lists of children (in most kernels)."""
    found: list[int] = []
    for thread in Path(f"/proc/{root}/task").iterdir():
        listed = (thread / "children").read_text()
        for pid in map(int, listed.split()):
            with suppress(ProcessLookupError, FileNotFoundError):
                if _state_and_parent(pid)[0] != "Z":
                    found.append(pid)
                found += _below(pid)
    return found


def _below_by_scan(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for name in (path.name for path in Path("/proc").iterdir()):
        if name.isdigit():
            with suppress(OSError):
                state, parent = _state_and_parent(int(name))
                if state != "Z":
                    parents[int(name)] = parent
    found: list[int] = []
    wanted = {root}
    while wanted:
        wanted = {pid for pid, parent in parents.items() if parent in wanted}
        found += wanted
    return found


def _state_and_parent(pid: int) -> tuple[str, int]:
    # A process name may hold any character, so count the fields from the last bracket.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return fields[0].decode(), int(fields[1])


def resident_bytes(pid: int) -> int:
    """Return the memory of a process in bytes; shared memory counts in part."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def _become_function_process(guard: int, output: int, memory_bytes: int) -> None:
    """Tie this process to its guard; set its limits, an empty input and the output pipe."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out, err = (os.fdopen(fd, "w", 1, errors="replace", closefd=False) for fd in (1, 2))
    sys.stdout, sys.stderr = out, err


def serve(file: Path, name: str, digest: str, connection: socket.socket) -> NoReturn:
    """Load the function and answer calls, in the function's process."""
    own_id, folder = os.getpid(), Path.cwd()
    try:
        function = load(file, name, digest)
    except BaseException as error:  # noqa: BLE001  # whatever the user's code raises
        _send(connection, {"error": describe(error, file)})
        os._exit(0)
    _send(connection, {})
    while (frame := _read_frame(connection.recv)) is not None:
        with suppress(ChildProcessError):  # children ended by the guard after the last call
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        try:
            os.chdir(folder)  # the last call may have left it
            reply = answer(function, json.loads(frame))
        except BaseException as error:  # noqa: BLE001  # whatever the user's code raises
            reply = {"error": describe(error, file)}
        if os.getpid() != own_id:  # a fork that came back from the function
            os._exit(0)
        _send(connection, reply)
    os._exit(0)


def load(file: Path, name: str, digest: str) -> Callable[..., Any]:
    """Return the function; raise RuntimeError if its file was changed since the service started."""
    source = file.read_bytes()
    if hashlib.sha256(source).hexdigest() != digest:
        raise RuntimeError("the file was changed: restart the service to use it")
    module = types.ModuleType("own_reward")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module
    exec(compile(source, str(file), "exec"), module.__dict__)
    function: Callable[..., Any] = getattr(module, name)
    return function


def answer(function: Callable[..., Any], call: dict[str, Any]) -> dict[str, Any]:
    """Return the function's values for a call, in a form for JSON."""
    most = len(call["answers"]) + 1  # an extra value shows that the list is too long
    values = function(call["task"], call["answers"], **call["arguments"])
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise TypeError(f"must return a list of values, not {_shown(values)}")
    return {"values": [_plain(value) for value in islice(values, most)]}


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in islice(value.items(), 8)}
    if value is None or isinstance(value, str):
        return value if value is None else value[:_MAX_TEXT]
    try:
        return float(value)  # type: ignore[arg-type]  # a number of any library has this
    except (TypeError, ValueError, OverflowError):
        return _shown(value)


def _shown(value: object) -> str:
    return f"a value of the type {type(value).__name__}"


def describe(error: BaseException, file: Path) -> str:
    """Return the error's type and message, with its last line in the user's file."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(file)
    ]
    where = f" in line {lines[-1]}" if lines else ""
    try:
        message = str(error)[:_MAX_TEXT]
    except BaseException:  # noqa: BLE001  # an exception of the user's own
        message = "its message cannot be shown"
    return f"raised {type(error).__name__}{where}{': ' if message else ''}{message}"


def _send(connection: socket.socket, value: dict[str, Any]) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # the function may have closed it
            stream.flush()
    content = json.dumps(value).encode()
    connection.sendall(len(content).to_bytes(4) + content)


def _read_frame(receive: Callable[[int], bytes]) -> bytes | None:
    """Return the next frame, or None at the end of the input."""
    length = _read_exactly(receive, 4)
    return None if length is None else _read_exactly(receive, int.from_bytes(length))


def _read_exactly(receive: Callable[[int], bytes], number: int) -> bytes | None:
    pieces: list[bytes] = []
    while number:
        piece = receive(min(number, 2**20))
        if not piece:
            return None
        pieces.append(piece)
        number -= len(piece)
    return b"".join(pieces)


def _parse(content: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        reply = json.loads(content)
        if isinstance(reply, dict):
            return reply
    raise WorkerEnded("gave a reply that cannot be read")


def main(file: str, name: str, digest: str, memory_bytes: str) -> None:
    """Answer calls from standard input until it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def serve_function(connection: socket.socket) -> NoReturn:
        serve(Path(file), name, digest, connection)

    def read(number: int) -> bytes:
        return os.read(0, number)

    guard = Guard(serve_function, int(memory_bytes))
    try:
        while (timeout := _read_exactly(read, 4)) is not None:
            frame = _read_frame(read)
            if frame is None:
                break
            content = json.dumps(guard.call(frame, int.from_bytes(timeout) / 1000)).encode()
            sys.stdout.buffer.write(len(content).to_bytes(4) + content)
            sys.stdout.buffer.flush()
    except (Gone, BrokenPipeError):
        pass
    finally:
        guard.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
