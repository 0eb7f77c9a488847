"""Client of the slot daemon, the process that builds slots."""

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
#: One thread for numerical libraries: they start more on import, and a slot must have none.
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "PATH": "/usr/bin:/bin",
    # Otherwise each fork resolves the functions that it calls for the first time.
    "LD_BIND_NOW": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
#: Programs can read the daemon's command line, so its settings come over the socket.
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
    """A slot: its number and its socket."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.number = number
        self.socket = connection
        #: The slot is gone or may be unclean: it must not be used again.
        self.is_lost = False
        self.free_since = 0.0


class DaemonLost(SandboxFault):
    """The slot daemon is gone."""


class DaemonClient:
    """The server's client of the slot daemon; starts it."""

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
        """Wait for the daemon's first answer.

        Raises:
            SandboxFault: the host does not grant the isolation; names the missing part.
        """
        answer = self._receive()[0]
        if "error" in answer:
            raise SandboxFault(str(answer["error"]))

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def make(self, number: int) -> Slot:
        """Build slot `number`, in place of an earlier slot with this number, and return it.

        Raises:
            SandboxFault: the host does not grant it.
            DaemonLost: the daemon is gone; ask a new daemon.
        """
        answer, descriptors = self._ask("make", number)
        if "error" in answer:
            raise SandboxFault(f"no slot: {answer['error']}")
        return Slot(number, socket.socket(fileno=descriptors[0]))

    def end(self, number: int) -> None:
        """End slot `number` and remove everything it owned.

        Raises:
            DaemonLost: the daemon is gone, and the slot with it.
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
