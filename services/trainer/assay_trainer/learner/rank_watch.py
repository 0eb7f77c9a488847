"""Notices the end of another rank's process, even if gloo or NCCL waits for it.

If a process is killed, an operation of the others usually fails at once. But gloo was seen to miss
the end of a connection (once in 60 kills on busy processors), and NCCL has a time limit of minutes.
So rank 0 has a connection with each other rank, and the kernel closes it with the process.
"""

import os
import secrets
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from assay_shared.errors import AssayError, Unreachable

LOST = "a process of this training has ended"
#: Seconds for all processes of a training to start: they import torch, perhaps from a slow disk.
MEET_S = 300.0
#: Seconds until a wait for them is told.
_TELL_S = 20.0
#: Seconds for the operations in flight to fail after a loss; then this process ends.
_GRACE_S = 30.0
_PAUSE_S, _CONNECT_S = 0.2, 5.0
_TOKEN_BYTES = 32
#: Connections to the listener that have sent nothing yet.
_MOST_SILENT = 256
_GOODBYE = b"."
#: Of an idle connection: the end of a whole machine is noticed within a minute.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}

#: The port and the token of rank 0's listener.
Meeting = tuple[int, bytes]


def wait_for_listener(host: str, port: int) -> None:
    """Wait until something listens there, which rank 0's process or its launcher does.

    Raises:
        Unreachable: nothing does within `MEET_S`.
    """
    patience = _Patience()
    while True:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_S).close()
        except OSError as error:
            patience.spend(f"the first process of this training at {host}:{port}: {error}")
            time.sleep(_PAUSE_S)
        else:
            return


def meet(
    rank: int,
    size: int,
    host: str,
    told: Callable[[Meeting | None], Meeting],
    check: Callable[[], None],
) -> list[socket.socket]:
    """Return this rank's connections: rank 0's with each other rank, another's with rank 0.

    Args:
        host: rank 0's.
        told: returns to every rank the meeting of rank 0.
        check: called by rank 0 in its wait; raises if a rank will not come.

    Raises:
        Unreachable: a rank did not come within `MEET_S`.
    """
    try:
        if rank > 0:
            return [_called(host, *told(None))]
        with _listener() as listener:
            token = secrets.token_bytes(_TOKEN_BYTES)
            told((listener.getsockname()[1], token))
            return _received(listener, token, size - 1, check)
    except OSError as error:
        raise Unreachable(
            f"the processes of this training do not reach each other: {error}", service="trainer"
        ) from None


def _listener() -> socket.socket:
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    most = socket.SOMAXCONN
    return socket.create_server(("", 0), family=family, backlog=most, dualstack_ipv6=both)


def _called(host: str, port: int, token: bytes) -> socket.socket:
    peer = socket.create_connection((host, port), timeout=MEET_S)
    peer.sendall(token)
    return peer


def _received(
    listener: socket.socket, token: bytes, number: int, check: Callable[[], None]
) -> list[socket.socket]:
    """Return the connections with the token; close the others."""
    found: list[socket.socket] = []
    silent: deque[socket.socket] = deque()
    patience = _Patience()
    listener.setblocking(False)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ, data=listener)
        while len(found) < number:
            patience.spend(f"{number - len(found)} other processes of this training")
            check()
            for key, _ in selector.select(_PAUSE_S):
                peer = key.data
                if peer is listener:
                    _accept(listener, selector, silent)
                elif peer in silent:
                    silent.remove(peer)
                    selector.unregister(peer)
                    if _knows(peer, token):
                        found.append(peer)
                    else:
                        peer.close()
    for peer in silent:
        peer.close()
    return found


def _accept(
    listener: socket.socket, selector: selectors.BaseSelector, silent: deque[socket.socket]
) -> None:
    """Accept a connection; of too many silent ones, close the oldest."""
    try:
        peer, _ = listener.accept()
    except OSError:
        return
    silent.append(peer)
    selector.register(peer, selectors.EVENT_READ, data=peer)
    if len(silent) > _MOST_SILENT:
        oldest = silent.popleft()
        selector.unregister(oldest)
        oldest.close()


def _knows(peer: socket.socket, token: bytes) -> bool:
    """Return True if the peer has sent the token, in one segment."""
    peer.setblocking(False)
    try:
        return secrets.compare_digest(peer.recv(_TOKEN_BYTES), token)
    except OSError:
        return False


class _Patience:
    """The time that a process waits for others at the start of a training."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._is_told = False

    def spend(self, awaited: str) -> None:
        """Tell people of a long wait, once.

        Raises:
            Unreachable: `MEET_S` are over.
        """
        waited_s = time.monotonic() - self._began
        if waited_s > MEET_S:
            message = f"waited {MEET_S:.0f} s for {awaited}"
            raise Unreachable(message, service="trainer", hint="their own messages say why")
        if waited_s > _TELL_S and not self._is_told:
            self._is_told = True
            sys.stderr.write(f"waiting for {awaited} ({MEET_S:.0f} s at most)\n")


class RankWatch:
    """A thread that waits for the end of other ranks' processes.

    Args:
        on_loss: called by the thread once a rank has ended without a goodbye.
    """

    def __init__(
        self,
        peers: Sequence[socket.socket],
        on_loss: Callable[[AssayError], None] = lambda error: None,
    ) -> None:
        self._peers = list(peers)
        self._on_loss = on_loss
        self._lock = threading.Lock()
        self._num_inside = 0
        self._is_lost = self._is_over = False
        for peer in self._peers:
            peer.settimeout(None)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEP_ALIVE.items():
                if hasattr(socket, name):
                    peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        threading.Thread(target=self._watch, name="rank-watch", daemon=True).start()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Count the block as an operation with other ranks.

        Raises:
            Unreachable: a rank has ended before.
        """
        if self._is_lost:
            raise _loss()
        with self._lock:
            self._num_inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_inside -= 1

    def close(self) -> None:
        """End the watch; the other ranks may end from now on, and so may this one."""
        self._is_over = True
        for peer in self._peers:
            with suppress(OSError):
                peer.sendall(_GOODBYE)
                peer.shutdown(socket.SHUT_WR)

    def _watch(self) -> None:
        try:
            if not self._all_said_goodbye():
                self._lose()
        finally:
            for peer in self._peers:
                peer.close()

    def _all_said_goodbye(self) -> bool:
        """Wait for the last word of each rank; return False once one ends without it."""
        with selectors.DefaultSelector() as selector:
            for peer in self._peers:
                selector.register(peer, selectors.EVENT_READ, data=peer)
            while selector.get_map():
                for key, _ in selector.select():
                    if not _said_goodbye(key.data):
                        return False
                    selector.unregister(key.data)
        return True

    def _lose(self) -> None:
        """Let the operations in flight fail; end this process if one does not."""
        self._is_lost = not self._is_over
        if self._is_lost:
            self._on_loss(_loss())
        deadline = time.monotonic() + _GRACE_S
        while not self._is_over:
            if self._num_inside and time.monotonic() > deadline:
                sys.stderr.write(f"error: {LOST}, and this one waits for it; resume the run\n")
                sys.stderr.flush()
                os._exit(1)
            time.sleep(_PAUSE_S)


def _loss() -> Unreachable:
    return Unreachable(LOST, service="trainer", hint="resume the run")


def _said_goodbye(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == _GOODBYE
    except OSError:
        return False
