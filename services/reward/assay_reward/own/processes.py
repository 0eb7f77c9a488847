"""User-defined functions in separate processes, kept running between calls."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay_reward.own.source import Function
from assay_reward.own.worker import LOAD_TIMEOUT_S
from assay_shared.errors import Overloaded, RewardFault
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.telemetry.context import client, request_id

_log = logging.getLogger(__name__)

_WORKER = Path(__file__).with_name("worker.py")
#: The environment variables of a function's process.
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
#: Extra time for a guard to report the end of its function's process.
_GUARD_S = 5.0
_END_S = 2.0
_MAX_WAITING, _MAX_WAIT_S = 4096, 120.0
_BUFFER_BYTES = 2**20


class FunctionProcesses:
    """Up to `num_processes` processes for each function, started on demand."""

    def __init__(self, num_processes: int = 1) -> None:
        self._num_processes = num_processes
        self._benches: dict[tuple[Function, int], _Bench] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def call(
        self, function: Function, question: bytes, *, timeout_s: float, memory_bytes: int
    ) -> object:
        """Return the function's values, unchecked. Its printed output is logged.

        Raises:
            RewardFault: the function raised, took too long or too much memory, or ended its
                process.
            Overloaded: other calls kept all its processes busy.
        """
        async with self._worker(function, memory_bytes) as worker:
            reply = await worker.call(question, timeout_s)
        name = f"{function.file.name}:{function.name}"
        if reply["printed"]:
            cut = f" (and {reply['cut']} bytes more)" if reply["cut"] else ""
            _log.info("%s printed: %s%s", name, reply["printed"].strip(), cut)
        if "error" in reply:
            raise RewardFault(f"{name} {reply['error']}")
        return reply.get("values")

    async def close(self) -> None:
        """End all processes and their children."""
        for bench in self._benches.values():
            for worker in bench.idle:
                self._end(worker)
        self._benches.clear()
        await asyncio.gather(*self._ending)

    @asynccontextmanager
    async def _worker(self, function: Function, memory_bytes: int) -> AsyncIterator["_Worker"]:
        """Yield a worker to a single call; if the call is broken off, end the worker."""
        key = (function, memory_bytes)
        bench = self._benches.setdefault(key, _Bench(self._open_gate()))
        try:
            place = await bench.gate.take(client(), request_id())
        except Overloaded as error:
            raise Overloaded(
                f"all processes of {function.name} are busy", retry_after_s=error.retry_after_s
            ) from None
        try:
            worker = bench.idle.pop() if bench.idle else _Worker(function, memory_bytes)
            try:
                yield worker
            except BaseException:
                self._end(worker)
                raise
            bench.idle.append(worker)
        finally:
            bench.gate.leave(place)

    def _open_gate(self) -> FairLimiter:
        return FairLimiter(
            self._num_processes,
            _MAX_WAITING,
            max_wait_s=_MAX_WAIT_S,
            retry_after_s=_MAX_WAIT_S / 10,
        )

    def _end(self, worker: "_Worker") -> None:
        task = asyncio.ensure_future(worker.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


@dataclass
class _Bench:
    """The processes of a function: the calls take turns, and idle workers wait here."""

    gate: FairLimiter
    idle: list["_Worker"] = field(default_factory=list)


class _Worker:
    """A guard process with the function's process below it."""

    def __init__(self, function: Function, memory_bytes: int) -> None:
        self._function = function
        self._memory_bytes = memory_bytes
        self._process: asyncio.subprocess.Process | None = None

    async def call(self, question: bytes, timeout_s: float) -> dict[str, Any]:
        """Return the guard's reply.

        Raises:
            RewardFault: the guard has ended, or did not reply within its time limit.
        """
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S + timeout_s + _GUARD_S):
                return await self._ask(question, timeout_s)
        except (TimeoutError, OSError, EOFError, ValueError) as error:
            raise RewardFault(f"the process of {self._function.name} was ended") from error

    async def _ask(self, question: bytes, timeout_s: float) -> dict[str, Any]:
        process = self._process = self._process or await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        limit_ms = max(1, round(timeout_s * 1000))
        process.stdin.write(limit_ms.to_bytes(4) + len(question).to_bytes(4) + question)
        await process.stdin.drain()
        length = int.from_bytes(await process.stdout.readexactly(4))
        reply: dict[str, Any] = json.loads(await process.stdout.readexactly(length))
        return reply

    async def _start(self) -> asyncio.subprocess.Process:
        function = self._function
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", str(_WORKER)),
            *(str(function.file), function.name, function.digest, str(self._memory_bytes)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_ENVIRONMENT,
            cwd=function.file.parent,
            start_new_session=True,  # Ctrl-C is for the service
            limit=_BUFFER_BYTES,
        )

    async def end(self) -> None:
        """Let the guard end its processes; kill the guard if it does not end in time."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_END_S):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
