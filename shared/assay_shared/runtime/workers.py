"""Calls in worker processes with limits on processor time and memory, for untrusted texts.

A call begins on a level with little processor time. A call that needs more is ended and begins
again on the next level, in other processes of lower priority, so short calls never wait behind
long calls. On each level clients take turns, and so do the requests of a client. Once a level has
ended several calls of a request in a row, the next calls of this request skip the level.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic import JsonValue

from assay_shared.errors import ErrorBody, InternalFault, TimedOut, TooHard, from_body
from assay_shared.runtime.fair_limiter import FairLimiter, LimiterPlace
from assay_shared.runtime.processes import spawn_silent
from assay_shared.telemetry.context import client, request_id

#: Processor time of the levels before the last; niceness of the processes of each level, and their
#: number per core. A short call waits only if all processes of the first level run long calls.
_LEVELS_S = (0.06, 0.5)
_NICE = (1, 15, 19)
_PER_CORE = (4, 2, 1)
_MEMORY_BYTES = 2 * 2**30
#: Wall time for each second of processor time: enough on a core with 60 busy processes.
_WALL_PER_CPU_S, _MIN_WALL_S = 60.0, 60.0
_GRACE_S = 5.0
_MAX_WAITING, _MAX_WAIT_S = 4096, 120.0
_PIECE_BYTES = 2**16
#: Calls of a request that a level ends in a row before it is skipped; requests that are remembered.
_SKIP_AFTER, _MAX_REQUESTS = 8, 1024
#: Signals that end a process which has used up its processor time or its stack.
_SPENT = {signal.SIGPROF: "processor time", signal.SIGSEGV: "stack"}
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")


class Workers:
    """Worker processes on levels, started with the first call; each core has one for long calls."""

    def __init__(
        self,
        modules: Sequence[str] = (),
        num: int | None = None,
        *,
        prepare: Sequence[str] = (),
        room_bytes: int | None = None,
        max_reply_bytes: int = 2**20,
    ) -> None:
        """Store the settings; the first call starts the processes.

        Args:
            modules: imported once, before the processes are forked. The function `warm_up` of a
                module is then called, and `freshen` at the start of each process for short calls.
            num: the number of cores to use, by default all.
            prepare: a function and its texts, called before the processes are forked.
            room_bytes: memory a call may add to its process; by default, the limit is on all
                memory of the process.
            max_reply_bytes: limit on the JSON result of a call.
        """
        self._modules = tuple(modules)
        self._prepare = list(prepare)
        self._room_bytes = room_bytes
        self._max_reply_bytes = max_reply_bytes
        self._num = num or len(os.sched_getaffinity(0))
        self._levels: list[_Level] = []
        self._process: subprocess.Popen[bytes] | None = None

    async def call(self, function: str, *args: JsonValue, cpu_s: float) -> JsonValue:
        """Return the result of `function`, named as in `package.module:function`.

        Raises:
            TooHard: the call takes more than `cpu_s` of processor time, or too much memory.
            TimedOut: the machine has no processor time left for the call.
            Overloaded: too many calls of this client wait already.
            AssayError: raised by the function; any other exception becomes InternalFault.
        """
        self.start()
        levels = list(zip((*_LEVELS_S, cpu_s), self._levels, strict=True))
        for limit_s, level in levels[:-1]:
            if limit_s < cpu_s:
                with suppress(TooHard):
                    return await level.call(function, args, limit_s, may_skip=True)
        return await levels[-1][1].call(function, args, cpu_s)

    def close(self) -> None:
        """End all processes."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        for level in self._levels:
            level.close()

    def start(self) -> None:
        """Start the processes unless they run; the first call does so too."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._levels = [_Level() for _ in _NICE]
        slots: dict[int, int] = {}
        theirs: list[socket.socket] = []
        for level, nice, per_core in zip(self._levels, _NICE, _PER_CORE, strict=True):
            for _ in range(per_core * self._num):
                own, other = socket.socketpair()
                level.add(own, self._max_reply_bytes)
                theirs.append(other)
                slots[other.fileno()] = nice
        settings = {
            "modules": self._modules,
            "prepare": self._prepare,
            "slots": slots,
            "memory_bytes": _MEMORY_BYTES,
            "room_bytes": self._room_bytes,
        }
        self._process = spawn_silent(
            [sys.executable, "-m", "assay_shared.runtime.worker_process", json.dumps(settings)],
            environment=_environment(),
            pass_fds=tuple(slots),
        )
        for other in theirs:
            other.close()


def _environment() -> dict[str, str]:
    """Return an environment without secrets; otherwise an untrusted text could reach them."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return kept | threads | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class _Level:
    """Processes of one priority, and the queue of calls for them."""

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._free: list[_Slot] = []
        self._gate: FairLimiter | None = None
        #: Calls ended in a row for a client's request; the newest requests.
        self._num_ended: OrderedDict[tuple[str, str], int] = OrderedDict()

    def add(self, own: socket.socket, max_reply_bytes: int) -> None:
        self._slots.append(_Slot(own, max_reply_bytes))
        self._free.append(self._slots[-1])

    def close(self) -> None:
        for slot in self._slots:
            slot.close()

    async def call(
        self, function: str, args: Sequence[JsonValue], cpu_s: float, *, may_skip: bool = False
    ) -> JsonValue:
        if self._gate is None:
            num = len(self._slots)
            self._gate = FairLimiter(num, _MAX_WAITING, max_wait_s=_MAX_WAIT_S)
        place = await self._gate.take(client(), request_id())
        if may_skip and self._is_hopeless():
            self._gate.leave(place)
            raise TooHard("this level has ended the calls before it")
        # A cancelled caller gives up its turn. Once a process works for it, only the process's own
        # limit ends the work, and only then is the slot free again.
        work = asyncio.ensure_future(self._ask(self._gate, place, function, args, cpu_s))
        # asyncio logs an error that nobody reads: the caller may be gone.
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        reply = await asyncio.shield(work)
        self._note("died" in reply)
        return _read(reply, cpu_s)

    def _is_hopeless(self) -> bool:
        """Return True if this level has ended the last calls of the current request."""
        return self._num_ended.get((client(), request_id() or ""), 0) >= _SKIP_AFTER

    def _note(self, is_ended: bool) -> None:
        identifier = request_id()
        if identifier is None:
            return
        key = (client(), identifier)
        num_ended = self._num_ended.pop(key, 0)
        if is_ended:
            self._num_ended[key] = num_ended + 1
            if len(self._num_ended) > _MAX_REQUESTS:
                self._num_ended.popitem(last=False)

    async def _ask(
        self,
        gate: FairLimiter,
        place: LimiterPlace,
        function: str,
        args: Sequence[JsonValue],
        cpu_s: float,
    ) -> dict[str, Any]:
        slot = self._free.pop()
        # A slot with an ended process goes last: forking its next process takes a while.
        index = 0
        try:
            reply = await slot.ask(function, args, cpu_s)
            index = 0 if "died" in reply else len(self._free)
            return reply
        finally:
            self._free.insert(index, slot)
            gate.leave(place)


def _read(reply: dict[str, Any], cpu_s: float) -> JsonValue:
    """Return the result in a reply. Raises as `Workers.call`."""
    if "result" in reply:
        result: JsonValue = reply["result"]
        return result
    if "spent" in reply:
        raise TooHard(f"it takes too much: {reply['spent']}")
    if "error" in reply:
        raise from_body(ErrorBody.model_validate(reply["error"])) or InternalFault("a call broke")
    if reply["died"] == signal.SIGALRM:
        raise TimedOut(f"{cpu_s:g} s of processor time were not available")
    if reply["died"] in _SPENT:
        raise TooHard(f"it takes more than {cpu_s:g} s: its {_SPENT[reply['died']]} is used up")
    raise InternalFault(f"a worker process ended with signal {reply['died']}")


class _Slot:
    """Parent's end of the socket to a process; the process takes calls one after the other."""

    def __init__(self, own: socket.socket, max_reply_bytes: int) -> None:
        self._socket = own
        self._max_reply_bytes = max_reply_bytes
        self._socket.setblocking(False)
        self._number = 0
        self._unread = b""
        self._is_busy = False
        self._is_closing = False

    def close(self) -> None:
        """Close the socket; a call in progress ends first, because its process has ended."""
        self._is_closing = True
        if not self._is_busy:
            self._socket.close()

    async def ask(self, function: str, args: Sequence[JsonValue], cpu_s: float) -> dict[str, Any]:
        """Return the reply of the process, or the signal of its end as `died`."""
        self._number += 1
        wall_s = max(_MIN_WALL_S, cpu_s * _WALL_PER_CPU_S)
        call = {"function": function, "args": args, "cpu_s": cpu_s, "wall_s": wall_s}
        line = json.dumps(call | {"number": self._number}).encode() + b"\n"
        self._is_busy = True
        try:
            self._forget_unread()
            async with asyncio.timeout(wall_s + _GRACE_S + _MIN_WALL_S):
                await asyncio.get_running_loop().sock_sendall(self._socket, line)
                return await self._reply()
        except (TimeoutError, OSError) as error:
            raise TimedOut("a worker process does not answer") from error
        finally:
            self._is_busy = False
            if self._is_closing:
                self._socket.close()

    def _forget_unread(self) -> None:
        """Drop messages between two calls, such as the end of an idle process."""
        self._unread = b""
        with suppress(BlockingIOError):
            while self._socket.recv(_PIECE_BYTES):
                pass

    async def _reply(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        while True:
            line, found, rest = self._unread.partition(b"\n")
            if not found:
                piece = await loop.sock_recv(self._socket, _PIECE_BYTES)
                if not piece or len(self._unread) > self._max_reply_bytes:
                    raise ConnectionError("the worker processes have ended")
                self._unread += piece
                continue
            self._unread = rest
            with suppress(ValueError):  # the beginning of a reply, cut off by its process's end
                reply = json.loads(line)
                if "died" in reply or reply.get("number") == self._number:
                    return dict(reply)
