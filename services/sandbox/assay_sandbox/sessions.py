"""Sessions: an interpreter that keeps its names from cell to cell, in a slot of its own."""

import asyncio
import glob
import json
import marshal
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from assay_sandbox.isolation import Slots
from assay_sandbox.program import Program, Records, status_of
from assay_sandbox.run import Capture, Ending, Plan, Run
from assay_sandbox.settings import SandboxSettings
from assay_sandbox.slot.cells import LENGTH
from assay_sandbox.slot.zygote import MARSHAL_VERSION
from assay_shared.errors import Conflict, InvalidInput, NotFound, SandboxFault, Saturated
from assay_shared.types import CellResult, Session, SessionRequest, Status

#: A cell that does not end by itself when its time is up takes its session along after this.
_GRACE_S = 2.0
_MAX_REPLY_BYTES = 2**20
_MAX_FILE_BYTES = 64 * 2**20
_SWEEP_S = 1.0


class SessionEnded(Exception):
    """The session's process is gone."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class SessionRun(Run):
    """A session's process. What is printed beyond the limit is dropped, and said to be."""

    def _overflow(self) -> None:
        self.out_of_output = True

    out_of_output = False


class LiveSession:
    """One session, from here. Its cells and files come one after the other."""

    def __init__(
        self, client: str, request: SessionRequest, program: Program, slot_number: int
    ) -> None:
        self.id = secrets.token_hex(16)
        self.client = client
        self.request = request
        self.slot_number = slot_number
        self.started = self.used = time.monotonic()
        self._program = program
        self._records = Records()
        self._turn = asyncio.Lock()
        self._slot: socket.socket
        self._run: SessionRun
        self._ending: asyncio.Task[Ending]
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def begin(self, slot: socket.socket, plan: Plan) -> None:
        """Start the interpreter in its slot."""
        self._slot = slot
        ours, theirs = socket.socketpair()
        with theirs:
            self._run = SessionRun(
                slot, plan, lambda _, line: self._records.take(line), theirs.fileno()
            )
        self._ending = asyncio.create_task(self._run.finish())
        self._reader, self._writer = await asyncio.open_connection(sock=ours)

    @property
    def is_busy(self) -> bool:
        return self._turn.locked()

    async def execute(self, code: str) -> CellResult:
        """Run a cell.

        Raises:
            SandboxFault: the session is gone by no fault of its own.
        """
        async with self._turn:
            started = time.monotonic()
            self._take_output()
            ended = False
            reply: dict[str, object] = {}
            try:
                reply, _ = await self._ask({"do": "run", "code": code})
                status, message = _read_status(reply)
            except SessionEnded as end:
                ended, status, message = True, end.status, end.message
            self._run.catch_up()
            stdout, stderr = self._take_output()
            if self._run.out_of_output and status is Status.ACCEPTED:
                status, message = Status.OUTPUT_LIMIT, "more was printed than is kept"
            self._run.out_of_output = False
            cpu_time_s = reply.get("cpu_time_s")
            result = reply.get("result")
            return CellResult(
                status=status,
                stdout=stdout,
                stderr=stderr,
                result=result if isinstance(result, str) else None,
                message=message,
                cpu_time_s=cpu_time_s if isinstance(cpu_time_s, float) else 0.0,
                wall_time_s=time.monotonic() - started,
                ended=ended,
            )

    async def put(self, name: str, content: bytes) -> None:
        """Write a file.

        Raises:
            InvalidInput: it cannot be written there.
        """
        command: dict[str, object] = {"do": "put", "name": name, "content": content}
        reply, _ = await self._in_turn(command)
        if "refused" in reply:
            raise InvalidInput(str(reply["refused"])[:400], field="name")

    async def get(self, name: str) -> bytes:
        """Read a file.

        Raises:
            NotFound: there is none, or none that can be given away.
        """
        pattern = glob.escape(name)
        command: dict[str, object] = {
            "do": "get",
            "name": pattern,
            "plain": name,
            "max_bytes": _MAX_FILE_BYTES,
        }
        reply, content = await self._in_turn(command)
        if "refused" in reply:
            raise NotFound(f"{name}: {str(reply['refused'])[:400]}")
        return content

    async def _in_turn(self, command: dict[str, object]) -> tuple[dict[str, object], bytes]:
        async with self._turn:
            try:
                return await self._ask(command)
            except SessionEnded as end:
                raise NotFound(f"the session has ended: {end.message}") from None

    async def _ask(self, command: dict[str, object]) -> tuple[dict[str, object], bytes]:
        """Send a command, and wait for the answer for as long as a cell may take."""
        limit_s = self.request.limits.wall_time_s + _GRACE_S
        asking = asyncio.create_task(self._exchange(command))
        try:
            await asyncio.wait(
                [asking, self._ending], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
            )
            if asking.done() and asking.exception() is None:
                return asking.result()
        finally:
            asking.cancel()
        timed_out = not asking.done() and not self._ending.done()
        self._run.kill()
        ending = await self._ending
        if timed_out or ending.out_of_time:
            raise SessionEnded(Status.TIME_LIMIT, "the session did not stop in time")
        status, message = status_of(ending, self._records, self._program)
        raise SessionEnded(
            status or Status.RUNTIME_ERROR, message or "the session ended its process"
        )

    async def _exchange(self, command: dict[str, object]) -> tuple[dict[str, object], bytes]:
        data = marshal.dumps(command, MARSHAL_VERSION)
        self._writer.write(LENGTH.pack(len(data)) + data)
        await self._writer.drain()
        reply = json.loads(await self._read(_MAX_REPLY_BYTES))
        if not isinstance(reply, dict):
            raise ValueError("a reply that is no object")
        return reply, await self._read(_MAX_FILE_BYTES) if command["do"] == "get" else b""

    async def _read(self, max_bytes: int) -> bytes:
        (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        if length > max_bytes:
            raise ValueError(f"a reply of {length} bytes")
        return await self._reader.readexactly(length)

    def _take_output(self) -> tuple[str, str]:
        """What was printed since the last time."""
        return _take(self._run.stdout), _take(self._run.stderr)

    async def end(self) -> None:
        """Kill its process; the slot is the caller's to give up."""
        self._run.kill()
        with suppress(SandboxFault):
            await self._ending
        self._slot.close()
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


def _take(capture: Capture) -> str:
    text = capture.data.decode(errors="replace")
    capture.data.clear()
    return text


def _read_status(reply: dict[str, object]) -> tuple[Status, str]:
    """What a process says of itself, which may be anything."""
    try:
        status = Status(str(reply.get("status")))
    except ValueError:
        return Status.RUNTIME_ERROR, "a reply that cannot be read"
    return status, str(reply.get("message", ""))[:2000]


class Sessions:
    """All sessions of a server: bounded in number, ended when nobody uses them."""

    def __init__(
        self,
        settings: SandboxSettings,
        slots: Slots,
        build: Callable[[SessionRequest], Awaitable[Program]],
    ) -> None:
        """`build` makes the interpreter's program of a request."""
        self._settings = settings
        self._slots = slots
        self._build = build
        self._live: dict[str, LiveSession] = {}
        self._free_numbers = list(range(settings.sandbox_max_sessions))
        self._running = asyncio.Semaphore(settings.sandbox_slots)
        self._sweeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._live)

    async def create(self, request: SessionRequest, client: str) -> Session:
        """Start a session.

        Raises:
            Saturated: there are as many as there may be, in all or of this client.
            SandboxFault: no slot could be built.
        """
        own = sum(session.client == client for session in self._live.values())
        if not self._free_numbers or own >= self._settings.sandbox_max_sessions_per_client:
            raise Saturated(
                f"{len(self._live)} sessions live, {own} of them yours",
                hint="end one that is no longer needed",
                retry_after_s=1.0,
            )
        number = self._free_numbers.pop()
        try:
            program = await self._build(request)
            session = LiveSession(client, request, program, number)
            slot = await self._slots.hold(request.profile, number)
            await session.begin(slot.socket, self._plan(program))
        except BaseException:
            self._free_numbers.append(number)
            raise
        self._live[session.id] = session
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep())
        return self._describe(session)

    def _plan(self, program: Program) -> Plan:
        life_s = self._settings.sandbox_session_life_s
        plan = program.plan()
        limits = {"wall_time_s": life_s, "cpu_time_s": life_s}
        header = plan.header | {"limits": dict(plan.header["limits"]) | limits, "session": True}  # type: ignore[call-overload]
        return Plan(
            header=header,
            body=plan.body | {"session": True},
            stdin=b"",
            wall_time_s=life_s,
            output_bytes=plan.output_bytes,
        )

    def _describe(self, session: LiveSession) -> Session:
        now = time.monotonic()
        left_s = session.started + self._settings.sandbox_session_life_s - now
        idle_s = session.used + self._settings.sandbox_session_idle_s - now
        return Session(
            id=session.id,
            profile=session.request.profile,
            limits=session.request.limits,
            ends_in_s=max(0.0, min(left_s, idle_s)),
            isolation=self._slots.isolation,
        )

    def describe(self, identifier: str, client: str) -> Session:
        """Raises NotFound."""
        return self._describe(self._find(identifier, client))

    def _find(self, identifier: str, client: str) -> LiveSession:
        session = self._live.get(identifier)
        if session is None or session.client != client:
            raise NotFound("there is no such session, or it has ended")
        session.used = time.monotonic()
        return session

    async def execute(self, identifier: str, client: str, code: str) -> CellResult:
        """Run a cell.

        Raises:
            NotFound: there is no such session.
            Conflict: a cell of it is running.
            SandboxFault: the session was lost by our fault.
        """
        session = self._find(identifier, client)
        if session.is_busy:
            raise Conflict("a cell of this session is running")
        try:
            async with self._running:
                result = await session.execute(code)
        except (SandboxFault, asyncio.CancelledError):
            await self._end(session)
            raise
        session.used = time.monotonic()
        if result.ended:
            await self._end(session)
        return result

    async def put_file(self, identifier: str, client: str, name: str, content: bytes) -> None:
        """Raises NotFound, and InvalidInput where it cannot be written."""
        await self._find(identifier, client).put(name, content)

    async def get_file(self, identifier: str, client: str, name: str) -> bytes:
        """Raises NotFound."""
        return await self._find(identifier, client).get(name)

    async def end(self, identifier: str, client: str) -> None:
        """Raises NotFound."""
        await self._end(self._find(identifier, client))

    async def _end(self, session: LiveSession) -> None:
        if self._live.pop(session.id, None) is None:
            return
        await session.end()
        await self._slots.let_go(session.request.profile, session.slot_number)
        self._free_numbers.append(session.slot_number)

    async def _sweep(self) -> None:
        """End what nobody uses, and what has lived for too long."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            for session in list(self._live.values()):
                if self._describe(session).ends_in_s <= 0 and not session.is_busy:
                    await self._end(session)

    async def close(self) -> None:
        """End all of them."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for session in list(self._live.values()):
            await self._end(session)
