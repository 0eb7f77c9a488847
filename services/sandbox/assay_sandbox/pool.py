"""The slots of a server: each runs one program at a time; one that is lost is built anew."""

import asyncio
import json
import logging
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from prometheus_client import Counter

import assay_sandbox
from assay_sandbox.host import PYTHON_FLAGS
from assay_sandbox.run import Ending, Plan, Run
from assay_sandbox.slot import cgroup
from assay_sandbox.slot.daemon import SlotConfig
from assay_shared.errors import SandboxFault

_log = logging.getLogger(__name__)

_MESSAGE_BYTES = 4096
_START_TIMEOUT_S = 30.0
_RETRY_S = 0.2
_STOP_TIMEOUT_S = 5.0
#: Numerical libraries would start threads as they are imported, and a slot may have none.
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "PATH": "/usr/bin:/bin",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_BOOT = "import sys; sys.dont_write_bytecode = True; sys.path[0] = sys.argv.pop(1); "
_BOOT += "from assay_sandbox.slot import daemon; daemon.main(int(sys.argv[1]), sys.argv[2])"


class Slot:
    """One slot's number and its socket."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.number = number
        self.socket = connection
        #: Whether something happened in it that it may not have survived clean.
        self.is_lost = False


class DaemonLost(SandboxFault):
    """The process that builds slots is gone."""


class Daemon:
    """The process that builds slots, from here."""

    def __init__(self, python: str, config: SlotConfig) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_START_TIMEOUT_S)
        with theirs:
            package = str(Path(assay_sandbox.__file__).parents[1])
            self._process = subprocess.Popen(
                [
                    python,
                    *PYTHON_FLAGS,
                    "-c",
                    _BOOT,
                    package,
                    str(theirs.fileno()),
                    json.dumps(asdict(config)),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Raises SandboxFault with what the host does not grant."""
        answer = self._receive()[0]
        if "error" in answer:
            raise SandboxFault(str(answer["error"]))

    def make(self, number: int) -> Slot:
        """Build a slot, in place of the one of that number.

        Raises:
            SandboxFault: the host does not grant it.
            DaemonLost: ask a new daemon.
        """
        answer, descriptors = self._ask("make", number)
        if "error" in answer:
            raise SandboxFault(f"no slot: {answer['error']}")
        return Slot(number, socket.socket(fileno=descriptors[0]))

    def end(self, number: int) -> None:
        """End the slot of that number, and remove what was its own.

        Raises:
            DaemonLost: it is gone with the daemon.
        """
        self._ask("end", number)

    def _ask(self, what: str, number: int) -> tuple[dict[str, object], list[int]]:
        try:
            self._socket.send(json.dumps({"do": what, "number": number}).encode())
        except OSError as error:
            raise DaemonLost(f"the slot daemon is gone: {error}") from error
        return self._receive()

    def _receive(self) -> tuple[dict[str, object], list[int]]:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._socket, _MESSAGE_BYTES, 1)
        except OSError as error:
            raise DaemonLost(f"the slot daemon does not answer: {error}") from error
        if not message:
            raise DaemonLost("the slot daemon has ended")
        return json.loads(message), descriptors

    def close(self) -> None:
        self._socket.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        cgroup.remove_left(self._process.pid)


class Pool:
    """`play` uses the next free slot; lost ones are built anew in a thread meanwhile."""

    def __init__(self, python: str, config: SlotConfig, numbers: range, rebuilt: Counter) -> None:
        """`numbers` are those of its slots: no two pools of a server share one."""
        self._python = python
        self._config = config
        self._numbers = numbers
        self._free: asyncio.Queue[Slot] = asyncio.Queue()
        self._building = asyncio.Lock()
        self._builds: set[asyncio.Task[None]] = set()
        self._daemon: Daemon | None = None
        self._is_closing = False
        self._rebuilt = rebuilt

    async def open(self) -> None:
        """Build all slots.

        Raises:
            SandboxFault: the host does not grant this isolation; says what is missing.
        """
        for number in self._numbers:
            self._free.put_nowait(await asyncio.to_thread(self._make, number))

    def _make(self, number: int) -> Slot:
        """Build a slot; with a new daemon if the old one turns out to be gone."""
        if self._daemon is not None:
            try:
                return self._daemon.make(number)
            except DaemonLost as error:
                _log.warning("%s: starting another", error)
                self._daemon.close()
                self._daemon = None
        self._daemon = Daemon(self._python, self._config)
        self._daemon.wait_until_ready()
        return self._daemon.make(number)

    async def play(
        self,
        plan: Plan,
        on_record: Callable[[Run, bytes], None],
        on_slot: Callable[[float], None] = lambda waited_s: None,
    ) -> Ending:
        """Run a plan in the next free slot. One that turns out to be gone costs only time.

        Raises:
            SandboxFault: the slot was lost under the program, or none takes it.
        """
        started = time.monotonic()
        for _ in range(len(self._numbers) + 1):
            async with self._slot() as slot:
                on_slot(time.monotonic() - started)
                run: Run | None = None
                try:
                    run = Run(slot.socket, plan, on_record)
                    return await run.finish()
                except SandboxFault:
                    if run is not None and run.has_begun:
                        raise
                finally:
                    slot.is_lost = run is None or run.is_slot_lost
        raise SandboxFault("no slot takes a program")

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[Slot]:
        """A free slot for the length of the block; first come, first served."""
        slot = await self._free.get()
        try:
            yield slot
        finally:
            if slot.is_lost or self._config.isolation == "single_use":
                slot.socket.close()
                self._rebuild(slot.number)
            else:
                self._free.put_nowait(slot)

    async def hold(self, number: int) -> Slot:
        """Build a slot beside those of the pool, for its holder alone.

        Raises:
            SandboxFault: the host does not grant it.
        """
        async with self._building:
            return await asyncio.to_thread(self._make, number)

    async def let_go(self, number: int) -> None:
        """End a slot that was held."""
        async with self._building:
            if self._daemon is not None:
                with suppress(DaemonLost):
                    await asyncio.to_thread(self._daemon.end, number)

    def _rebuild(self, number: int) -> None:
        self._rebuilt.inc()
        task = asyncio.create_task(self._build_again(number))
        self._builds.add(task)
        task.add_done_callback(self._builds.discard)

    async def _build_again(self, number: int) -> None:
        """Until it works: a host that was out of memory or disk comes back."""
        while not self._is_closing:
            async with self._building:
                try:
                    slot = await asyncio.to_thread(self._make, number)
                except SandboxFault as error:
                    _log.error("slot %d cannot be built: %s", number, error)
                else:
                    self._free.put_nowait(slot)
                    return
            await asyncio.sleep(_RETRY_S)

    async def close(self) -> None:
        """End all slots."""
        self._is_closing = True
        await asyncio.gather(*self._builds)  # a build under way is a thread: it cannot be cancelled
        while not self._free.empty():
            self._free.get_nowait().socket.close()
        if self._daemon is not None:
            await asyncio.to_thread(self._daemon.close)
