"""The server's side of one program in a slot: reads its pipes, ends it on time, reports its end."""

import asyncio
import marshal
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO

from assay_sandbox.execution.answers import SlotAnswer, load_files, read_answer
from assay_sandbox.execution.clock import Clock
from assay_sandbox.execution.streams import Capture, PipeReader, RecordLines
from assay_sandbox.slot.accounting.watch import BEGIN_CASE, BUSY, IDLE, KILL
from assay_sandbox.slot.zygote import MARSHAL_VERSION, MAX_MESSAGE_BYTES
from assay_shared.errors import SandboxFault

#: In place of the content of files, if the slot did not finish picking them up in time.
NOT_PICKED_UP = "it could not be picked up"
#: Time for a killed program to be gone, after its request was cancelled; then its slot is lost.
_KILL_TIMEOUT_S = 3.0
#: The same while the request is still there: the slot also has files to pick up.
_ANSWER_TIMEOUT_S = 10.0
#: Inputs and files above this are written and read in a thread, not on the event loop.
_LARGE_BYTES = 2**20
#: A program is another user than the server; otherwise it could not open /dev/stdout.
_WRITABLE = 0o622


@dataclass(frozen=True)
class RunResult:
    """The end of a program. `exit_code` is negative for a signal, as in subprocess."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    cpu_time_s: float
    wall_time_s: float
    #: Time in which the program neither computed nor waited for a core; counted to 0.1 s.
    idle_time_s: float
    #: Time from the program's end until nothing of it was left.
    clean_time_s: float
    peak_memory_bytes: int
    out_of_time: bool
    #: A case of the program used more than its CPU limit.
    out_of_cpu: bool
    out_of_output: bool
    out_of_memory: bool
    #: CPU seconds from the start, or from each `Run.begin_case`, to the next one or to the end.
    case_cpu_times_s: tuple[float, ...] = ()
    #: The requested files that were found: the content, or the reason why it is missing.
    files: dict[str, bytes | str] = field(default_factory=dict)
    #: The record channel had more lines than the harness writes: the program wrote some of them.
    forged_records: bool = False
    #: The program ended its slot each time it was run.
    ended_its_slot: bool = False


@dataclass(frozen=True)
class RunSpec:
    """A slot's orders. `header` is for the slot, `body` for the program's process alone."""

    header: dict[str, object]
    body: dict[str, object]
    stdin: bytes
    wall_time_s: float
    output_bytes: int
    #: Patterns of files to pick up after the program's end, and the most bytes of them together.
    fetch: tuple[str, ...] = ()
    fetch_bytes: int = 0
    #: One end of a socket; the program's process gets a copy of it.
    channel: int | None = None

    @property
    def num_cases(self) -> int:
        """Number of cases for the harness to run after the program."""
        number = self.header.get("num_cases", 0)
        return number if isinstance(number, int) else 0

    @property
    def num_input_bytes(self) -> int:
        """Approximate bytes written for the program before it starts."""
        files = self.body.get("files")
        contents = files.values() if isinstance(files, dict) else ()
        return len(self.stdin) + sum(len(content) for content, _ in contents)


class SlotLost(SandboxFault):
    """A slot ended, or sent an invalid answer, while a program was in it."""


class Inputs:
    """Files in memory for a program to read: its stdin, and the plan for its harness."""

    def __init__(self, plan: RunSpec) -> None:
        self.stdin = _memory_file(plan.stdin)
        self.body = _memory_file(marshal.dumps(plan.body, MARSHAL_VERSION))

    def close(self) -> None:
        self.stdin.close()
        self.body.close()


async def write_inputs(plan: RunSpec) -> Inputs:
    """Write a program's inputs and return them; use a thread if they are large."""
    if plan.num_input_bytes > _LARGE_BYTES:
        return await asyncio.to_thread(Inputs, plan)
    return Inputs(plan)


class RunningProgram:
    """A program sent to a slot."""

    def __init__(
        self,
        slot: socket.socket,
        plan: RunSpec,
        on_record: Callable[["RunningProgram", bytes], None],
        channel: int | None = None,
        *,
        inputs: Inputs | None = None,
        on_rest: Callable[[bool], None] | None = None,
    ) -> None:
        """Send the program to the slot.

        Args:
            on_record: called with each line of the record channel as it is written.
            channel: an end of a socket; the program gets a copy of it.
            inputs: the inputs from `write_inputs` for this plan; closed here.
            on_rest: called with True when the program stops using CPU time, False when it resumes.

        Raises:
            SandboxFault: the slot is gone.
        """
        self._slot = slot
        self._plan = plan
        self._on_record = on_record
        self.on_rest = on_rest
        self._forged_records = False
        self._started = time.monotonic()
        self.is_out_of_output = False
        self._out_of_time = False
        self._killed = False
        self._giving_up: asyncio.TimerHandle | None = None
        self._fetched: FileIO | None = None
        #: The program's process has written a record; until then, running it again is safe.
        self.has_begun = False
        self.stdout = Capture(plan.output_bytes, self._overflow)
        self.stderr = Capture(plan.output_bytes, self._overflow)
        self._records = RecordLines(
            plan.num_cases, plan.output_bytes, self._take_line, self._overflow_records
        )
        self._answer: asyncio.Future[SlotAnswer | None] = asyncio.get_running_loop().create_future()
        self._drains = self._send(plan, channel, inputs or Inputs(plan))
        asyncio.get_running_loop().add_reader(slot.fileno(), self._read_answer)
        self.clock = Clock(plan.wall_time_s, self.catch_up, self._end_of_time)

    def _send(self, plan: RunSpec, channel: int | None, inputs: Inputs) -> list[PipeReader]:
        pipes = [os.pipe() for _ in range(3)]
        (_, out), (_, err), (_, record) = pipes
        for fd in (out, err):
            os.fchmod(fd, _WRITABLE)
        descriptors = [inputs.stdin.fileno(), out, err, record, inputs.body.fileno()]
        if plan.fetch:
            # One file carries the patterns there and the found files back: too much for a message.
            self._fetched = _memory_file(marshal.dumps(list(plan.fetch), MARSHAL_VERSION))
            descriptors.append(self._fetched.fileno())
        if channel is not None:
            descriptors.append(channel)
        try:
            fetch = {"fetch": bool(plan.fetch), "fetch_bytes": plan.fetch_bytes}
            header = marshal.dumps(plan.header | fetch, MARSHAL_VERSION)
            socket.send_fds(self._slot, [header], descriptors)
        except OSError as error:
            self._close_fetched()
            for read, _ in pipes:
                os.close(read)
            raise SandboxFault(f"a slot takes no program: {error}") from error
        finally:
            inputs.close()
            for _, write in pipes:
                os.close(write)
        takers = (self.stdout.take, self.stderr.take, self._take_records)
        return [PipeReader(read, take) for (read, _), take in zip(pipes, takers, strict=True)]

    def _take_records(self, chunk: bytes) -> None:
        self.has_begun = True
        self._records.take(chunk)

    def _take_line(self, line: bytes) -> None:
        self._on_record(self, line)

    def _overflow(self, num_dropped: int) -> None:
        """Kill the program for too much output, unless its time was over before."""
        self.is_out_of_output = not self._out_of_time
        self._stop_reading()

    def _overflow_records(self, has_too_many: bool) -> None:
        self._forged_records = has_too_many and not self._out_of_time
        self.is_out_of_output = not has_too_many and not self._out_of_time
        self._stop_reading()

    def _stop_reading(self) -> None:
        for drain in self._drains:
            drain.close()  # from now on the program's writes fail, until the kill ends it
        self.kill()

    def catch_up(self) -> None:
        """Read everything that the program has written until now."""
        self._read_answer()
        for drain in self._drains:
            drain.catch_up()

    def _end_of_time(self) -> None:
        if not self._answer.done():
            self._out_of_time = True
            self.kill()

    def _read_answer(self) -> None:
        """Read the slot's next message, if there is any."""
        if self._answer.done():
            return
        try:
            message = _receive(self._slot)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if message in (IDLE, BUSY):
            if self.on_rest is not None:
                self.on_rest(message == IDLE)
            return
        self._end_with(read_answer(message))

    def begin_case(self) -> None:
        """Give the program its whole wall time and CPU time again, for its next case.

        Call it when a source out of the program's reach reports the start of a case. The slot
        counts the time. `RunResult.case_cpu_times_s` has the CPU time up to the first call, and
        from each call to the next. A case over its CPU limit is killed: `RunResult.out_of_cpu`.
        """
        self.clock.restart()
        self.begin_cell()

    def begin_cell(self) -> None:
        """Give the program its CPU time again, but no wall time, for its next cell."""
        if not self._answer.done():
            with suppress(OSError):  # the slot is gone, or has hundreds of these still to read
                self._slot.send(BEGIN_CASE)

    def kill(self) -> None:
        """Kill the program and all processes it started."""
        if not self._killed and not self._answer.done():
            self._killed = True
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(_ANSWER_TIMEOUT_S, self._give_up)
            with suppress(OSError):  # the slot and its program are gone: the answer will show it
                self._slot.send(KILL)

    def _give_up(self) -> None:
        """Treat the slot as lost if it has not answered."""
        if not self._answer.done():
            self._end_with(None)

    def _end_with(self, answer: SlotAnswer | None) -> None:
        asyncio.get_running_loop().remove_reader(self._slot.fileno())
        self._answer.set_result(answer)

    async def finish(self) -> RunResult:
        """Wait for the end of the program and return it. The slot is then free and clean.

        Raises:
            SlotLost: the slot is gone; `is_slot_lost` is then true.
            SandboxFault: memory ran out for all slots together.
        """
        try:
            answer = await asyncio.shield(self._answer)
            self._close_streams()
            files = {} if answer is None else await self._read_files()
        except asyncio.CancelledError:
            await self._abandon()
            raise
        finally:
            self._close_streams()
            self._give_up()
            self._close_fetched()
            self._let_go()
        if answer is None:
            raise SlotLost("the slot ended under its program")
        if answer.out_of_memory_around:
            raise SandboxFault("memory ran out for all slots together: whose doing is not known")
        return self._ending(answer, files)

    def _close_streams(self) -> None:
        self.clock.stop()
        if self._giving_up is not None:
            self._giving_up.cancel()
        self.catch_up()
        for drain in self._drains:
            drain.close()

    def _let_go(self) -> None:
        """Drop the callbacks that refer to this object. A reference cycle would keep the program's
        inputs and outputs until the garbage collector runs on old objects, which is rare.
        """
        self._drains.clear()
        self.stdout.on_overflow = self.stderr.on_overflow = lambda _: None
        self.on_rest = None
        del self._records, self._on_record

    async def _read_files(self) -> dict[str, bytes | str]:
        """Return the requested files. A program can make its files unreadable: such a file has a
        reason in place of its content.
        """
        if self._fetched is None:
            return {}
        if os.fstat(self._fetched.fileno()).st_size > _LARGE_BYTES:
            found = await asyncio.to_thread(load_files, self._fetched)
        else:
            found = load_files(self._fetched)
        if found is None:
            return dict.fromkeys(self._plan.fetch, NOT_PICKED_UP)
        return found

    def _close_fetched(self) -> None:
        if self._fetched is not None:
            self._fetched.close()
            self._fetched = None

    @property
    def is_slot_lost(self) -> bool:
        return not self._answer.done() or self._answer.result() is None

    async def _abandon(self) -> None:
        self.kill()
        await asyncio.wait([self._answer], timeout=_KILL_TIMEOUT_S)

    def _ending(self, answer: SlotAnswer, files: dict[str, bytes | str]) -> RunResult:
        return RunResult(
            exit_code=os.waitstatus_to_exitcode(answer.status),
            stdout=bytes(self.stdout.data),
            stderr=bytes(self.stderr.data),
            cpu_time_s=answer.cpu_time_s,
            wall_time_s=answer.wall_time_s,
            idle_time_s=answer.idle_time_s,
            clean_time_s=answer.clean_time_s,
            peak_memory_bytes=answer.peak_memory_bytes,
            # If its time ended after the program did, the kill only hit its leftovers.
            out_of_time=self._out_of_time and answer.killed_by_server,
            out_of_cpu=answer.out_of_cpu,
            out_of_output=self.is_out_of_output,
            out_of_memory=answer.out_of_memory,
            case_cpu_times_s=answer.case_cpu_times_s,
            files=files,
            forged_records=self._forged_records,
        )

    def ending_of_lost_slot(self) -> RunResult:
        """Return the end of a program known to end its slot on every run."""
        took_s = time.monotonic() - self._started
        return RunResult(
            exit_code=-signal.SIGKILL,
            stdout=bytes(self.stdout.data),
            stderr=bytes(self.stderr.data),
            cpu_time_s=0.0,
            wall_time_s=took_s,
            idle_time_s=0.0,
            clean_time_s=0.0,
            peak_memory_bytes=0,
            out_of_time=False,
            out_of_cpu=False,
            out_of_output=False,
            out_of_memory=False,
            ended_its_slot=True,
        )


def _receive(slot: socket.socket) -> bytes:
    """Return a slot's answer; nothing if the slot is gone without an answer.

    A slot that ends with an unread message of ours resets the connection. The kernel reports this
    once, before it delivers the answer sent earlier (unix(7)): hence the second read.

    Raises:
        BlockingIOError: the slot has not answered yet.
    """
    with suppress(ConnectionResetError):
        return slot.recv(MAX_MESSAGE_BYTES)
    return slot.recv(MAX_MESSAGE_BYTES)


def _memory_file(content: bytes) -> FileIO:
    """Return a file with `content` to read; unlike a pipe, it cannot block its writer."""
    file = FileIO(os.memfd_create("assay", os.MFD_CLOEXEC), "r+")
    file.write(content)
    file.seek(0)
    return file
