"""Rendezvous of the trainer and an engine's workers: a shared store, and their process group."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed

from .limit import Limit, TransferFailed, first_line

#: Any, because torch.distributed is compiled and only partly typed.
_distributed: Any = torch.distributed
Store = Any
#: State of a worker's group with the trainer, in the worker's ready message.
KEPT, NEW = "kept", "new"
#: The trainer's last word at a meeting: nothing more comes.
OVER = "over"
#: Longest time for an answer of the store.
_STORE_TIMEOUT_S = 30.0
_CLOSE_TIMEOUT_S = 5.0
#: Gloo's own timeout comes after the limit, whose error says what did not come.
_SLACK_S = 0.5
#: Timeout of the group: practically none, because torch's timeout would end the whole process.
_NEVER = timedelta(days=30)
_BACKLOG = 64
#: Without these values, NCCL's watchdog ends the whole process if its peer is gone.
_KEEP_PROCESS = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_ENABLE_MONITORING": "0"}


class Meeting(NamedTuple):
    """Address of the trainer's store, and a unique token to tell meetings apart."""

    host: str
    port: int
    token: str


def open_store(host: str) -> tuple[int, Store]:
    """Open the trainer's store on a free port of `host` alone; return the port and the store.

    Raises:
        TransferFailed: this host has no such address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        try:
            listener.bind((host, 0))
            listener.listen(_BACKLOG)
        except OSError as error:
            raise TransferFailed(f"cannot listen at {host}: {error}") from error
        port = int(listener.getsockname()[1])
        store = _distributed.TCPStore(
            host,
            port,
            is_master=True,
            timeout=timedelta(seconds=_STORE_TIMEOUT_S),
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
    return port, store


def join_store(meeting: Meeting, limit: Limit) -> Store:
    """Connect a worker to the trainer's store, and return it.

    Raises:
        TransferFailed: the trainer is not at the address.
    """
    timeout = timedelta(seconds=min(_STORE_TIMEOUT_S, max(1.0, limit.remaining_s)))
    try:
        store = _distributed.TCPStore(
            meeting.host, meeting.port, timeout=timeout, wait_for_workers=False
        )
    except (RuntimeError, TimeoutError) as error:
        raise TransferFailed(f"the trainer is not at {meeting.host}:{meeting.port}") from error
    return within_meeting(store, meeting)


def within_meeting(store: Store, meeting: Meeting) -> Store:
    """Return the part of the store for holders of the meeting's token."""
    return _distributed.PrefixStore(meeting.token, store)


def group_store(store: Store, announcement: int) -> Store:
    """Return the part of the store for the group of an announcement; each has its own part."""
    return _distributed.PrefixStore(f"group/{announcement}", store)


def has_key(store: Store, key: str, whose: str) -> bool:
    """Return True if the other side has set `key`.

    Raises:
        TransferFailed: the store, and so the trainer, is gone.
    """
    try:
        return bool(store.check([key]))
    except RuntimeError as error:
        raise TransferFailed(f"{whose} is gone") from error


def make_group(
    transport: str,
    store: Store,
    rank: int,
    size: int,
    host: str,
    device: torch.device,
) -> Any:
    """Make a process group, separate from the default group. It may hang: call it with a limit.

    `host` is this process's address on the way to the other processes.
    """
    if transport == "gloo":
        options = _distributed.ProcessGroupGloo._Options()
        options._timeout = _NEVER
        options._devices = [_distributed.ProcessGroupGloo.create_device(hostname=host)]
        return _distributed.ProcessGroupGloo(store, rank, size, options)
    torch.cuda.set_device(device)  # in this thread too
    with _environment(_KEEP_PROCESS):
        options = _distributed.ProcessGroupNCCL.Options()
        options._timeout = _NEVER
        group = _distributed.ProcessGroupNCCL(store, rank, size, options)
    # The first call makes the communicator. It hangs if a peer is missing; the caller's limit ends
    # this.
    first = torch.zeros(1, dtype=torch.uint8, device=device)
    broadcast(group, first).wait()
    torch.cuda.synchronize(device)
    return group


def broadcast(group: Any, tensor: torch.Tensor, limit: Limit | None = None) -> Any:
    """Start a broadcast of the trainer's tensor to all workers; return the unfinished work.

    With gloo, `limit` sets its timeout, because the group cannot be ended earlier: `abort` would
    stop all threads.
    """
    options = _distributed.BroadcastOptions()
    options.rootRank = 0
    if limit is not None and group.name() == "gloo":
        options.timeout = timedelta(seconds=limit.remaining_s + _SLACK_S)
    return group.broadcast([tensor], options)


def finish(work: Any, limit: Limit, what: str) -> None:
    """Wait for `work`; raise TransferFailed if it fails or does not end in time."""
    try:
        limit.wait_until(work.is_completed, what)
        work.wait()
    except RuntimeError as error:
        limit.check(what)
        raise TransferFailed(f"{what} broke off: {first_line(error)}") from error


def close_group(group: Any) -> None:
    """Abort the group's pending work, here and at its peers. NCCL may hang even here."""
    with suppress(TransferFailed):
        Limit(_CLOSE_TIMEOUT_S).within(group.abort, "the end of the group")


def own_address(meeting: Meeting) -> str:
    """Return this host's address on the way to the trainer.

    Raises:
        TransferFailed: the trainer is not at the address.
    """
    try:
        with socket.create_connection((meeting.host, meeting.port), _STORE_TIMEOUT_S) as way:
            return str(way.getsockname()[0])
    except OSError as error:
        raise TransferFailed(f"the trainer is not at {meeting.host}:{meeting.port}") from error


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
