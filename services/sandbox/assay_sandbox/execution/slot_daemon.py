"""The process that builds slots, as the server sees it."""

import json
import socket
import subprocess
from dataclasses import asdict
from pathlib import Path

import assay_sandbox
from assay_sandbox.execution.host import PYTHON_FLAGS
from assay_sandbox.slot.confinement import cgroup
from assay_sandbox.slot.daemon import SlotConfig
from assay_shared.errors import SandboxFault

_MESSAGE_BYTES = 4096
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 5.0
#: Numerical libraries would start threads as they are imported, and a slot may have none.
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "PATH": "/usr/bin:/bin",
    # Else each fork looks up the functions that it calls for the first time.
    "LD_BIND_NOW": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
#: Programs can read the daemon's command line: what it is told comes over the socket.
_BOOT = """
import json, socket, sys
sys.dont_write_bytecode = True
server = socket.socket(fileno=int(sys.argv[1]))
config = json.loads(server.recv(65536))
sys.path[0] = config.pop("package")
from assay_sandbox.slot import names
names.hide_paths()
from assay_sandbox.slot import daemon
daemon.main(server, config)
"""


class Slot:
    """One slot's number and its socket."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.number = number
        self.socket = connection
        #: Whether something happened in it that it may not have survived clean.
        self.is_lost = False
        self.free_since = 0.0


class DaemonLost(SandboxFault):
    """The process that builds slots is gone."""


class DaemonClient:
    """The process that builds slots, from here."""

    def __init__(self, python: str, config: SlotConfig) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_START_TIMEOUT_S)
        with theirs:
            package = str(Path(assay_sandbox.__file__).parents[1])
            self._socket.send(json.dumps(asdict(config) | {"package": package}).encode())
            self._process = subprocess.Popen(
                [python, *PYTHON_FLAGS, "-c", _BOOT, str(theirs.fileno())],
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

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

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
