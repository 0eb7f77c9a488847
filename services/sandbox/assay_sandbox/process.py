"""One process from start to clean end: pipes drained while it runs, and its whole tree killed."""

import asyncio
import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from assay_shared.errors import SandboxFault

#: How long a killed tree may take to be gone before it counts as our fault.
_KILL_TIMEOUT_S = 5.0
_CHUNK_BYTES = 65536
_PR_SET_CHILD_SUBREAPER = 36
#: In every program's environment: finds what left its session, where slots share a user.
MARKER = "ASSAY_PROGRAM"


@dataclass(frozen=True)
class Ending:
    """How a process ended. `exit_code` is negative for a signal, as in subprocess."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    cpu_time_s: float
    wall_time_s: float
    out_of_time: bool
    out_of_output: bool


class Drain:
    """Reads a pipe as the process writes it: nobody ever waits for a full pipe."""

    def __init__(self, fd: int, take: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._take = take
        self.ended = asyncio.get_running_loop().create_future()
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._read)

    def _read(self) -> None:
        try:
            chunk = os.read(self._fd, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if chunk:
            self._take(chunk)
        else:
            self.close()

    def close(self) -> None:
        if not self.ended.done():
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self.ended.set_result(None)


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
    """Ends a process that is over its wall time; `restart` gives it the whole time again."""

    def __init__(self, limit_s: float, on_end: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._on_end = on_end
        self.ended = False
        self._timer = self._arm()

    def _arm(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._limit_s, self._end)

    def _end(self) -> None:
        self.ended = True
        self._on_end()

    def restart(self) -> None:
        if not self.ended:
            self.stop()
            self._timer = self._arm()

    def stop(self) -> None:
        self._timer.cancel()


@dataclass(frozen=True)
class Start:
    """What to start. `owner` finds its processes: a user of their own, or a marked environment."""

    command: tuple[str, ...]
    folder: Path
    environment: dict[str, str]
    stdin: bytes
    plan: bytes
    owner: "Owner"


@dataclass(frozen=True)
class Owner:
    """Which processes belong to a program, wherever they hide in the process tree."""

    marker: str
    uid: int | None

    def end_processes(self) -> int:
        """Kill those that live, reap those that are ours to reap; how many there were."""
        owned = [pid for pid in _all_pids() if self._owns(pid)]
        return sum(_end_process(pid) for pid in owned)

    def _owns(self, pid: int) -> bool:
        folder = f"/proc/{pid}"
        try:
            if self.uid is not None:
                return os.stat(folder).st_uid == self.uid
            with open(f"{folder}/environ", "rb") as file:  # empty for a zombie
                return f"{MARKER}={self.marker}\0".encode() in file.read()
        except OSError:
            return False


def become_subreaper() -> None:
    """Adopt orphans of programs. A zombie that nobody reaps counts against its user's limit."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _end_process(pid: int) -> bool:
    """Kill or reap a process; false for a zombie that another parent has to reap."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
        if state != b"Z":
            os.kill(pid, signal.SIGKILL)
        elif int(parent) == os.getpid():
            os.waitpid(pid, os.WNOHANG)
        else:
            return False
    except (OSError, ChildProcessError):
        pass  # it went by itself
    return True


class Process:
    """A started process and what is read from it."""

    def __init__(
        self,
        start: Start,
        *,
        wall_time_s: float,
        output_bytes: int,
        on_record: Callable[["Process", bytes], None],
    ) -> None:
        """Start it. `on_record` gets each line of the record channel as it is written."""
        self._start = start
        self._on_record = on_record
        self._partial_record = b""
        self._out_of_output = False
        self.stdout = Capture(output_bytes, self._overflow)
        self.stderr = Capture(output_bytes, self._overflow)
        self._started = time.monotonic()
        self._popen = self._spawn()
        self.clock = Clock(wall_time_s, self.kill)

    def _spawn(self) -> subprocess.Popen[bytes]:
        pipes = [os.pipe() for _ in range(3)]
        (_, out), (_, err), (_, record) = pipes
        files = [_memory_file(self._start.stdin), _memory_file(self._start.plan)]
        ends = [out, err, record, *files]
        try:
            popen = subprocess.Popen(
                [*self._start.command, str(files[1]), str(record)],
                stdin=files[0],
                stdout=out,
                stderr=err,
                cwd=self._start.folder,
                env=self._start.environment,
                pass_fds=(files[1], record),
                start_new_session=True,
            )
        except OSError as error:
            for read, _ in pipes:
                os.close(read)
            raise SandboxFault(f"cannot start a program: {error}") from error
        finally:
            for end in ends:
                os.close(end)
        takers = (self.stdout.take, self.stderr.take, self._take_record)
        self._drains = [Drain(read, take) for (read, _), take in zip(pipes, takers, strict=True)]
        return popen

    def _take_record(self, chunk: bytes) -> None:
        *lines, self._partial_record = (self._partial_record + chunk).split(b"\n")
        for line in lines:
            self._on_record(self, line)
        if len(self._partial_record) > self.stdout.limit_bytes:
            self._overflow()

    def _overflow(self) -> None:
        self._out_of_output = True
        self.kill()

    def kill(self) -> None:
        """End the process and its session now; what left the session dies in `finish`."""
        if self._popen.returncode is None:
            os.killpg(self._popen.pid, signal.SIGKILL)

    async def finish(self) -> Ending:
        """Wait for the end, kill what is left of the tree, and read the pipes to their ends."""
        try:
            usage = await self._reap()
        finally:
            self.clock.stop()
            await self._kill_tree()
        return Ending(
            exit_code=self._popen.returncode,
            stdout=bytes(self.stdout.data),
            stderr=bytes(self.stderr.data),
            cpu_time_s=usage.ru_utime + usage.ru_stime,
            wall_time_s=time.monotonic() - self._started,
            out_of_time=self.clock.ended,
            out_of_output=self._out_of_output,
        )

    async def _reap(self) -> resource.struct_rusage:
        """Wait for the process itself. Cancelled, it is killed and reaped all the same."""
        pidfd = os.pidfd_open(self._popen.pid)
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        loop.add_reader(pidfd, _end, ended)
        try:
            await ended
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
            if not ended.done() or ended.cancelled():
                self.kill()
            # It has ended or is killed: this does not wait.
            _, status, usage = os.wait4(self._popen.pid, 0)  # noqa: ASYNC222
            self._popen.returncode = os.waitstatus_to_exitcode(status)
        return usage

    async def _kill_tree(self) -> None:
        deadline = time.monotonic() + _KILL_TIMEOUT_S
        while num_left := self._start.owner.end_processes():
            if time.monotonic() > deadline:
                raise SandboxFault(f"{num_left} processes of a program cannot be killed")
            await asyncio.sleep(0.002)
        for drain in self._drains:
            remaining = max(0.0, deadline - time.monotonic())
            try:
                await asyncio.wait_for(asyncio.shield(drain.ended), remaining)
            except TimeoutError:
                drain.close()
                raise SandboxFault("a program's pipe is still open after its end") from None


def _end(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _memory_file(content: bytes) -> int:
    """A descriptor to read `content` from; unlike a pipe it cannot block its writer."""
    fd = os.memfd_create("assay", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
