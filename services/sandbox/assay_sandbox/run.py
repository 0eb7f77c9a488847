"""One program in a slot, from here: pipes drained while it runs, its clock, how it ended."""

import asyncio
import marshal
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from assay_sandbox.slot.zygote import KILL, MARSHAL_VERSION, MAX_MESSAGE_BYTES
from assay_shared.errors import SandboxFault

#: How long a killed program may take to be gone before its slot is given up.
_KILL_TIMEOUT_S = 3.0
_CHUNK_BYTES = 65536


@dataclass(frozen=True)
class Ending:
    """How a program ended. `exit_code` is negative for a signal, as in subprocess."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    cpu_time_s: float
    wall_time_s: float
    #: From the program's end until nothing of it was left.
    clean_time_s: float
    peak_memory_bytes: int
    out_of_time: bool
    out_of_output: bool
    out_of_memory: bool
    #: CPU seconds from the start, or from each `Run.begin_case`, to the next one or to the end.
    case_cpu_times_s: tuple[float, ...] = ()
    #: What was asked for and found: its content, or why it could not be had.
    files: dict[str, bytes | str] = field(default_factory=dict)


class Drain:
    """Reads a pipe as the program writes it: nobody ever waits for a full pipe."""

    def __init__(self, fd: int, take: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._take = take
        self._is_open = True
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self.read)

    def read(self) -> bool:
        """Take what is there; whether there was anything."""
        if not self._is_open:
            return False
        try:
            chunk = os.read(self._fd, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if chunk:
            self._take(chunk)
        else:
            self.close()
        return bool(chunk)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)


@dataclass
class Capture:
    """Bytes of one stream, up to a cap."""

    limit_bytes: int
    on_overflow: Callable[[], None]
    data: bytearray = field(default_factory=bytearray)

    def take(self, chunk: bytes) -> None:
        room = self.limit_bytes - len(self.data)
        self.data += chunk[:room]
        if len(chunk) > room:
            self.on_overflow()


class Clock:
    """Ends a program that is over its wall time; `restart` gives it the whole time again.

    The timer only wakes: `catch_up` then reads what the program has said until now, which may have
    restarted the clock. A server that was late itself never ends a program early.
    """

    def __init__(
        self, limit_s: float, catch_up: Callable[[], None], on_end: Callable[[], None]
    ) -> None:
        self._limit_s = limit_s
        self.catch_up = catch_up
        self._on_end = on_end
        self._started = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(limit_s, self._wake)

    def _wake(self) -> None:
        self.catch_up()
        left_s = self._started + self._limit_s - time.monotonic()
        if left_s > 0:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._wake)
        else:
            self._on_end()

    def restart(self) -> None:
        self._started = time.monotonic()

    def stop(self) -> None:
        self._timer.cancel()


@dataclass(frozen=True)
class Plan:
    """What a slot is to do. `body` is for the program's process alone, `header` for the slot."""

    header: dict[str, object]
    body: dict[str, object]
    stdin: bytes
    wall_time_s: float
    output_bytes: int
    #: Patterns of files to pick up once the program has ended, and how much they may be in all.
    fetch: tuple[str, ...] = ()
    fetch_bytes: int = 0
    #: One end of a socket, which the program's process gets a copy of.
    channel: int | None = None


class Run:
    """A program that was sent to a slot."""

    def __init__(
        self,
        slot: socket.socket,
        plan: Plan,
        on_record: Callable[["Run", bytes], None],
        channel: int | None = None,
    ) -> None:
        """Send it. `on_record` gets each line of the record channel as it is written.

        `channel` is a session's end of a socket, which it gets a copy of.

        Raises:
            SandboxFault: the slot is gone.
        """
        self._slot = slot
        self._plan = plan
        self._on_record = on_record
        self._partial_record = b""
        self._out_of_output = False
        self._out_of_time = False
        self._killed = False
        self._fetched: int | None = None
        #: Whether the program's process has said anything; before that, running it again is safe.
        self.has_begun = False
        self.stdout = Capture(plan.output_bytes, self._overflow)
        self.stderr = Capture(plan.output_bytes, self._overflow)
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._drains = self._send(plan, channel)
        asyncio.get_running_loop().add_reader(slot.fileno(), self._read_answer)
        self.clock = Clock(plan.wall_time_s, self.catch_up, self._end_of_time)

    def _send(self, plan: Plan, channel: int | None) -> list[Drain]:
        pipes = [os.pipe() for _ in range(3)]
        (_, out), (_, err), (_, record) = pipes
        body = _memory_file(marshal.dumps(plan.body, MARSHAL_VERSION))
        descriptors = [_memory_file(plan.stdin), out, err, record, body]
        if plan.fetch:
            self._fetched = _memory_file(b"")
            descriptors.append(os.dup(self._fetched))
        if channel is not None:
            descriptors.append(os.dup(channel))
        try:
            fetch = {"fetch": list(plan.fetch), "fetch_bytes": plan.fetch_bytes}
            header = marshal.dumps(plan.header | fetch, MARSHAL_VERSION)
            socket.send_fds(self._slot, [header], descriptors)
        except OSError as error:
            self._take_files()
            for read, _ in pipes:
                os.close(read)
            raise SandboxFault(f"a slot takes no program: {error}") from error
        finally:
            for fd in descriptors:
                os.close(fd)
        takers = (self.stdout.take, self.stderr.take, self._take_record)
        return [Drain(read, take) for (read, _), take in zip(pipes, takers, strict=True)]

    def _take_record(self, chunk: bytes) -> None:
        self.has_begun = True
        *lines, self._partial_record = (self._partial_record + chunk).split(b"\n")
        for line in lines:
            self._on_record(self, line)
        if len(self._partial_record) > self.stdout.limit_bytes:
            self._overflow()

    def _overflow(self) -> None:
        self._out_of_output = True
        for drain in self._drains:
            drain.close()  # what it still writes has no reader: it gets no further until it is dead
        self.kill()

    def catch_up(self) -> None:
        """Read all that the program has written until now."""
        self._read_answer()
        for drain in self._drains:
            while drain.read():
                pass

    def _end_of_time(self) -> None:
        if not self._answer.done():
            self._out_of_time = True
            self.kill()

    def _read_answer(self) -> None:
        if self._answer.done():
            return
        try:
            answer = _receive(self._slot)
        except BlockingIOError:
            return
        except OSError:
            answer = b""
        asyncio.get_running_loop().remove_reader(self._slot.fileno())
        self._answer.set_result(answer)

    def begin_case(self) -> None:
        """Give the program its whole wall time again, for its next case."""
        self.clock.restart()

    def kill(self) -> None:
        """End the program and all that it started, now."""
        if not self._killed and not self._answer.done():
            self._killed = True
            with suppress(OSError):  # the slot is gone, and so is the program: the answer says it
                self._slot.send(KILL)

    async def finish(self) -> Ending:
        """Wait for the end. The slot is free, and clean, when this returns.

        Raises:
            SandboxFault: the slot is gone; `is_slot_lost` says so too.
        """
        try:
            answer = await asyncio.shield(self._answer)
        except asyncio.CancelledError:
            await self._abandon()
            raise
        finally:
            self.clock.stop()
            self.catch_up()
            for drain in self._drains:
                drain.close()
            files = self._take_files()
        if not answer:
            raise SandboxFault("the slot ended under its program")
        if self._plan.fetch and not files:
            raise SandboxFault("a program's files could not be picked up")
        facts = marshal.loads(answer)
        if facts["out_of_memory_around"]:
            raise SandboxFault("memory ran out for all slots together: whose doing is not known")
        return self._ending(facts, marshal.loads(files) if files else {})

    def _take_files(self) -> bytes:
        if self._fetched is None:
            return b""
        with os.fdopen(self._fetched, "rb") as file:
            self._fetched = None
            file.seek(0)
            return file.read()

    @property
    def is_slot_lost(self) -> bool:
        return not self._answer.done() or not self._answer.result()

    async def _abandon(self) -> None:
        self.kill()
        await asyncio.wait([self._answer], timeout=_KILL_TIMEOUT_S)

    def _ending(self, answer: dict[str, object], files: dict[str, bytes | str]) -> Ending:
        return Ending(
            exit_code=os.waitstatus_to_exitcode(int(str(answer["status"]))),
            stdout=bytes(self.stdout.data),
            stderr=bytes(self.stderr.data),
            cpu_time_s=float(str(answer["cpu_time_s"])),
            wall_time_s=float(str(answer["wall_time_s"])),
            clean_time_s=float(str(answer["clean_time_s"])),
            peak_memory_bytes=int(str(answer["peak_memory_bytes"])),
            # A program that had ended when its time was over was only cleaned up after.
            out_of_time=self._out_of_time and bool(answer["killed_by_server"]),
            out_of_output=self._out_of_output,
            out_of_memory=bool(answer["out_of_memory"]),
            files=files,
        )


def _receive(slot: socket.socket) -> bytes:
    """What a slot answers; nothing if it is gone without an answer.

    One that leaves with a message of ours unread resets the connection: the kernel says so once,
    before it hands out the answer that was sent before (unix(7)).

    Raises:
        BlockingIOError: it has not said anything yet.
    """
    with suppress(ConnectionResetError):
        return slot.recv(MAX_MESSAGE_BYTES)
    return slot.recv(MAX_MESSAGE_BYTES)


def _memory_file(content: bytes) -> int:
    """A descriptor to read `content` from; unlike a pipe it cannot block its writer."""
    fd = os.memfd_create("assay", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
