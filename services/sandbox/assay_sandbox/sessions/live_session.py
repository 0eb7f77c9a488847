"""A session: its interpreter in its own slot, and the connection to it."""

import asyncio
import glob
import json
import marshal
import math
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from assay_sandbox.execution.program import Program, Records, status_of
from assay_sandbox.execution.run import RunningProgram, RunResult, RunSpec, SlotLost
from assay_sandbox.execution.streams import Capture
from assay_sandbox.slot.program.cells import LENGTH
from assay_sandbox.slot.zygote import MARSHAL_VERSION
from assay_shared.errors import InvalidInput, NotFound, SandboxFault
from assay_shared.runtime.fair_limiter import LimiterPlace
from assay_shared.types import CellResult, SessionRequest, Status

#: A cell still running this long after its time limit is killed, together with its session.
_GRACE_S = 2.0
_MAX_REPLY_BYTES = 2**20
_MAX_FILE_BYTES = 64 * 2**20
#: Most bytes to send or receive before other tasks of the event loop get a turn.
_PIECE_BYTES = 2**18
#: Most bytes that all cells of a session may print beyond their output limits.
_MAX_DROPPED_BYTES = 256 * 2**20
#: A cell that has not computed by then lends its permit to others. Slots check at this interval.
_LOOK_S = 0.2


class SessionEnded(Exception):
    """The session's process has ended."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class SessionRun(RunningProgram):
    """A session's process. Output of a cell beyond the limit is dropped, and the cell's result says
    so. A session with too much dropped output in all is ended.
    """

    #: Output was dropped since the last cell.
    out_of_output = False
    _num_dropped = 0

    def _overflow(self, num_dropped: int) -> None:
        self.out_of_output = True
        self._num_dropped += num_dropped
        if self._num_dropped > _MAX_DROPPED_BYTES:
            super()._overflow(num_dropped)


class LiveSession:
    """The server's side of a session. Its cells and files come one after the other."""

    def __init__(
        self,
        client: str,
        request: SessionRequest,
        program: Program,
        slot_number: int,
        evidence: Callable[[], object],
    ) -> None:
        """Use `evidence` to tell lost slots apart: it changes if no program caused the loss."""
        self.id = secrets.token_hex(16)
        self.client = client
        self.request = request
        self.slot_number = slot_number
        self.started = self.used = time.monotonic()
        self._program = program
        self._evidence = evidence
        self._records = Records()
        self._turn = asyncio.Lock()
        #: True while the process uses no CPU time; the running cell's place is then lent to others.
        self._is_idle = False
        self._place: LimiterPlace | None = None
        self._slot: socket.socket
        self._run: SessionRun
        self._ending: asyncio.Task[RunResult]
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def begin(self, slot: socket.socket, plan: RunSpec) -> None:
        """Start the interpreter in its slot."""
        self._slot = slot
        self._evidence_before = self._evidence()
        ours, theirs = socket.socketpair()
        with theirs:
            self._run = SessionRun(
                slot,
                plan,
                lambda _, line: self._records.take(line),
                theirs.fileno(),
                on_rest=self._rest,
            )
        self._ending = asyncio.create_task(self._run.finish())
        self._reader, self._writer = await asyncio.open_connection(sock=ours)

    @property
    def is_busy(self) -> bool:
        return self._turn.locked()

    def _rest(self, is_idle: bool) -> None:
        self._is_idle = is_idle
        if self._place is not None:
            self._place.rest(is_idle)

    @contextmanager
    def _lending(self, place: LimiterPlace) -> Iterator[None]:
        """Lend the place of a cell while the cell waits for something."""
        self._place = place
        # A process that was idle before the cell, and stays idle, reports no change: check later.
        look = asyncio.get_running_loop().call_later(_LOOK_S, lambda: place.rest(self._is_idle))
        try:
            yield
        finally:
            look.cancel()
            self._place = None

    async def execute(self, code: str, place: LimiterPlace) -> CellResult:
        """Run a cell and return its result; lend the cell's place to others while it sleeps.

        Raises:
            SandboxFault: the session is gone by no fault of its code.
        """
        async with self._turn:
            with self._lending(place):
                return await self._execute(code)

    async def _execute(self, code: str) -> CellResult:
        started = time.monotonic()
        self._take_output()
        if not self._ending.done():
            self._evidence_before = self._evidence()
            self._run.begin_cell()
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
        result = reply.get("result")
        return CellResult(
            status=status,
            stdout=stdout,
            stderr=stderr,
            result=_clean(result) if isinstance(result, str) else None,
            message=message,
            cpu_time_s=_read_duration(reply.get("cpu_time_s")),
            wall_time_s=time.monotonic() - started,
            ended=ended,
        )

    async def put(self, name: str, content: bytes) -> None:
        """Write a file.

        Raises:
            InvalidInput: the file cannot be written there.
        """
        command: dict[str, object] = {"do": "put", "name": name, "content": content}
        reply, _ = await self._in_turn(command)
        if "refused" in reply:
            raise InvalidInput(str(reply["refused"])[:400], field="name")

    async def get(self, name: str) -> bytes:
        """Read a file and return its content.

        Raises:
            NotFound: there is no such file, or it cannot be sent.
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
        """Send a command and return the answer; wait at most as long as a cell may take.

        Raises:
            SessionEnded: the session has ended, or was killed for the lack of a valid answer.
        """
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
        ending = await self._await_ending()
        if timed_out or ending.out_of_time:
            raise SessionEnded(Status.TIME_LIMIT, "the session did not stop in time")
        status, message = status_of(ending, self._records, self._program)
        raise SessionEnded(
            status or Status.RUNTIME_ERROR, message or "the session ended its process"
        )

    async def _await_ending(self) -> RunResult:
        """Return the end of the process. A slot lost for no other known reason was ended by it.

        Raises:
            SandboxFault: the slot was lost by no fault of the session, as far as is known.
        """
        try:
            return await self._ending
        except SlotLost:
            if self._evidence() != self._evidence_before:
                raise
            return self._run.ending_of_lost_slot()

    async def _exchange(self, command: dict[str, object]) -> tuple[dict[str, object], bytes]:
        if "content" in command:
            data = await asyncio.to_thread(marshal.dumps, command, MARSHAL_VERSION)
        else:
            data = marshal.dumps(command, MARSHAL_VERSION)
        self._writer.write(LENGTH.pack(len(data)))
        for start in range(0, len(data), _PIECE_BYTES):
            self._writer.write(data[start : start + _PIECE_BYTES])
            await self._writer.drain()
        reply = _parse_reply(await self._read(_MAX_REPLY_BYTES))
        return reply, await self._read(_MAX_FILE_BYTES) if command["do"] == "get" else b""

    async def _read(self, max_bytes: int) -> bytes:
        (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        if length > max_bytes:
            raise ValueError(f"a reply of {length} bytes")
        content = bytearray()
        while len(content) < length:
            piece = min(length - len(content), _PIECE_BYTES)
            content += await self._reader.readexactly(piece)
        return bytes(content)

    def _take_output(self) -> tuple[str, str]:
        """Return stdout and stderr printed since the last call."""
        return _take(self._run.stdout), _take(self._run.stderr)

    async def end(self) -> None:
        """Kill the session's process. The caller must give up the slot."""
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


def _parse_reply(data: bytes) -> dict[str, object]:
    """Parse a reply without trust: the session's code may have written it.

    Raises:
        ValueError: it is not a JSON object.
    """
    try:
        reply = json.loads(data)
    except RecursionError:
        raise ValueError("a reply that nests too deeply") from None
    if not isinstance(reply, dict):
        raise ValueError("a reply that is not an object")
    return reply


def _clean(text: str) -> str:
    """Return the text without halves of surrogate pairs: an answer cannot carry them."""
    return text.encode("utf-8", "replace").decode()


def _read_status(reply: dict[str, object]) -> tuple[Status, str]:
    """Return the status and message in a process's reply; the reply may hold anything."""
    try:
        status = Status(str(reply.get("status")))
    except ValueError:
        return Status.RUNTIME_ERROR, "a reply that cannot be read"
    return status, _clean(str(reply.get("message", ""))[:2000])


def _read_duration(value: object) -> float:
    return value if isinstance(value, float) and 0.0 <= value < math.inf else 0.0
