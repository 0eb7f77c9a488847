"""How trainer and workers find each other, and the group of processes they make then."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed

from .limit import Limit, TransferFailed, first_line

#: Compiled, and typed in part.
_distributed: Any = torch.distributed
Store = Any
#: What a worker says of its group with the trainer.
KEPT, NEW = "kept", "new"
#: Longest that one answer of the store may take.
_STORE_TIMEOUT_S = 30.0
_CLOSE_TIMEOUT_S = 5.0
#: The group's own clock is not used: it would end the whole process.
_NEVER = timedelta(days=30)
_BACKLOG = 64
#: With these at their defaults, NCCL's watchdog ends a process whose peer is gone.
_KEEP_PROCESS = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_ENABLE_MONITORING": "0"}


class Meeting(NamedTuple):
    """Where the trainer waits, and a word that is used once: it tells one meeting from another."""

    host: str
    port: int
    token: str


def open_store(host: str) -> tuple[int, Store]:
    """The trainer's store, on a free port of `host` alone; the port.

    Raises:
        TransferFailed: this host has no such address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        try:
            listener.bind((host, 0))
            listener.listen(_BACKLOG)
        except OSError as error:
            raise TransferFailed(f"nobody can be met at {host}: {error}") from error
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
    """A worker's way to the trainer's store.

    Raises:
        TransferFailed: nobody is there.
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
    """The store, for those who know the meeting's word."""
    return _distributed.PrefixStore(meeting.token, store)


def group_store(store: Store, announcement: int) -> Store:
    """Where the group that is made for an announcement finds together: never twice the same."""
    return _distributed.PrefixStore(f"group/{announcement}", store)


def has_key(store: Store, key: str, whose: str) -> bool:
    """Whether the other side has come so far.

    Raises:
        TransferFailed: the store is gone, and with it the trainer.
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
    """A group of its own, beside whatever default group the process has. May hang: give it a limit.

    `host`: this process's own address, on the way to the others.
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
    # The first call makes the communicator, where a missing peer would hang.
    first = torch.zeros(1, dtype=torch.uint8, device=device)
    broadcast(group, first).wait()
    torch.cuda.synchronize(device)
    return group


def broadcast(group: Any, tensor: torch.Tensor, limit: Limit | None = None) -> Any:
    """The trainer's tensor to all; the work, which is not waited for.

    `limit` ends it under gloo, whose group cannot be ended before: `abort` would stop all threads.
    """
    options = _distributed.BroadcastOptions()
    options.rootRank = 0
    if limit is not None and group.name() == "gloo":
        options.timeout = timedelta(seconds=max(limit.remaining_s, 0.001))
    return group.broadcast([tensor], options)


def finish(work: Any, limit: Limit, what: str) -> None:
    """Raises TransferFailed if it does not end in time, or ends badly."""
    try:
        limit.wait_until(work.is_completed, what)
        work.wait()
    except RuntimeError as error:
        limit.check(what)
        raise TransferFailed(f"{what} broke off: {first_line(error)}") from error


def close_group(group: Any) -> None:
    """End what it waits for, here and at the others. NCCL may hang even in this."""
    with suppress(TransferFailed):
        Limit(_CLOSE_TIMEOUT_S).within(group.abort, "the end of the group")


def own_address(meeting: Meeting) -> str:
    """This host's address on the way to the trainer."""
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
