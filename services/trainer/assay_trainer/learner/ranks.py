"""The processes that train one policy together: rank 0 leads, the others follow its calls.

Every process has a shard of the weights. What rank 0 calls on its updater, the others call on
theirs, so that all take part in each collective operation. Only GRPO's updates are shared: rank 0
alone collects rollouts, publishes, evaluates and writes events.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, Store, TCPStore
from torch.distributed.constants import default_pg_timeout

from assay_shared.errors import AssayError, ConfigError, Unreachable
from assay_trainer.learner.rank_watch import (
    LOST,
    MEET_S,
    Meeting,
    RankWatch,
    meet,
    wait_for_listener,
)
from assay_trainer.stop import Stop, Stopped

#: A follower waits for rank 0 while rollouts are drawn and policies are evaluated.
_LONGEST_WAIT = timedelta(days=7)
_END_WAIT_S = 30.0
#: For the store to answer; torch's client takes several times as long.
_ANSWER_WAIT = timedelta(seconds=60)
#: The store's key with rank 0's meeting.
_MEETING = "assay/meeting"
#: The variable by which torchrun says that the store of MASTER_PORT is in its own process.
_STORE_IS_THERE = "TORCHELASTIC_USE_AGENT_STORE"
#: Words of gloo's errors, which have no type.
_GLOO = ("gloo", "Gloo", "Connection closed by peer", "Connection reset by peer")
_ENVIRONMENT = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


class Ranks:
    """This process among those of a training. Alone, every operation is trivial."""

    def __init__(
        self,
        *,
        on_gpu: bool | None = None,
        check: Callable[[], None] = lambda: None,
        on_loss: Callable[[AssayError], None] = lambda error: None,
    ) -> None:
        """Join the processes of this training, as the environment of their launcher says.

        `torchrun`, `accelerate launch` and `assay train --gpus` write that environment. It is
        taken away: libraries of other stages would wait for processes that take no part in them.

        Args:
            check: called in the wait for the others; raises if one of them will not come.
            on_loss: called by a thread if a rank ends, whatever this one does.

        Raises:
            Unreachable: the others did not come, or one has ended.
        """
        on_gpu = torch.cuda.is_available() if on_gpu is None else on_gpu
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        gpu = int(os.environ.get("LOCAL_RANK", "0"))
        self.device = torch.device("cuda", gpu) if on_gpu else torch.device("cpu")
        if on_gpu:
            torch.cuda.set_device(self.device)
        self._group: dist.ProcessGroup | None = None
        self._watch: RankWatch | None = None
        #: For the threads that write checkpoints; None for a process alone.
        self.writing_group: dist.ProcessGroup | None = None
        if self.size > 1:
            store, peers = self._meet(check)
            self._watch = RankWatch(peers, on_loss)
            with self.together():
                backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
                dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.size)
                self._group = dist.new_group(backend="gloo", timeout=_LONGEST_WAIT)
                self.writing_group = dist.new_group(backend="gloo", timeout=_LONGEST_WAIT)
            for name in _ENVIRONMENT:
                os.environ.pop(name, None)
        elif on_gpu and not dist.is_initialized():
            # FSDP needs a group, also of one.
            dist.init_process_group("nccl", store=HashStore(), rank=0, world_size=1)

    @property
    def is_sharded(self) -> bool:
        """Return True if the trained weights are shards, which are not what is served."""
        return self.size > 1 or self.device.type == "cuda"

    def _meet(self, check: Callable[[], None]) -> tuple[Store, list[socket.socket]]:
        """Return the store of all ranks, and this one's connections to watch."""

        def told(value: Meeting | None) -> Meeting:
            if value is not None:
                store.set(_MEETING, f"{value[0]} {value[1].hex()}")
                return value
            port, token = store.get(_MEETING).decode().split()
            return int(port), bytes.fromhex(token)

        try:
            host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            is_host = self.rank == 0 and os.environ.get(_STORE_IS_THERE) != str(True)
            if not is_host:
                wait_for_listener(host, port)
            store = TCPStore(
                host, port, is_master=is_host, wait_for_workers=False, timeout=_ANSWER_WAIT
            )
            store.set_timeout(timedelta(seconds=MEET_S))
            peers = meet(self.rank, self.size, host, told, check)
        except dist.DistError as error:
            raise Unreachable(
                f"a process of this training did not start: {error}",
                service="trainer",
                hint="its own messages say why",
            ) from None
        # Groups are made and NCCL begins at this store: with torch's own limit.
        store.set_timeout(default_pg_timeout)
        return store, peers

    def send(self, messages: Sequence[object]) -> None:
        """Send a message to each rank, by rank; for rank 0.

        Raises:
            Unreachable: a rank has ended.
        """
        if self._group is not None:
            with self.together():
                dist.scatter_object_list([None], list(messages), src=0, group=self._group)

    def receive(self) -> Any:
        """Wait for this rank's message from rank 0.

        Raises:
            Unreachable: rank 0 has ended.
        """
        found: list[object] = [None]
        with self.together():
            dist.scatter_object_list(found, None, src=0, group=self._group)
        return found[0]

    def end(self) -> None:
        """Let the other ranks end, and end the threads of gloo's groups; rank 0 calls this last.

        Such a thread may still hold a tensor of the last message. If it freed it while Python ends,
        it would abort this process. The loss of a rank changes nothing any more.
        """
        if self._group is not None:
            self.leave()
            with suppress(Unreachable):
                self.send([None] * self.size)
            for group in (self._group, self.writing_group):
                dist.destroy_process_group(group)
            self._group = self.writing_group = None

    def leave(self) -> None:
        """Let the others end from now on; each rank calls this before the end of its process."""
        if self._watch is not None:
            self._watch.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run the block, in which all ranks take part.

        Raises:
            Unreachable: a rank has ended.
        """
        try:
            with nullcontext() if self._watch is None else self._watch.inside():
                yield
        except RuntimeError as error:
            if self.size == 1 or not _is_loss(error):
                raise
            # gloo's text says only that a connection has ended; NCCL's may have the cause.
            told = LOST if _is_of_gloo(error) else f"{LOST}: {error!s:.500}"
            hint = "its own messages say why; resume the run"
            raise Unreachable(told, service="trainer", hint=hint) from None

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks; every rank calls this."""
        if self.size > 1:
            dist.all_reduce(value)
        return value

    def max(self, value: torch.Tensor) -> torch.Tensor:
        """Return the maximum over all ranks; every rank calls this."""
        if self.size > 1:
            dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return value


def _is_loss(error: RuntimeError) -> bool:
    """Return True for what NCCL, gloo and torch's checkpoints raise when a rank has ended."""
    return isinstance(error, dist.DistError) or _is_of_gloo(error)


def _is_of_gloo(error: RuntimeError) -> bool:
    return any(one in str(error) for one in _GLOO)


@contextmanager
def joined(gpus: Sequence[int] = (), stop: Stop | None = None) -> Iterator[Ranks]:
    """Yield the ranks of a run in the block; at its end, the followers end.

    With `gpus`, only these GPUs are used: this process takes the first, and a new process takes
    each further one. `stop` ends the wait for them, and is told of a loss.

    Raises:
        ConfigError: a GPU is not there.
        Unreachable: a follower did not come, or has ended.
    """
    stop = stop or Stop()
    _store, processes = _start_followers(gpus) if gpus else (None, [])
    try:
        ranks = Ranks(check=partial(_check_start, processes, stop), on_loss=stop.fail)
        try:
            yield ranks
        except Stopped:
            ranks.end()
            raise
        ranks.end()
    finally:
        for process in processes:
            try:
                process.wait(_END_WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def check_gpus(gpus: Sequence[int]) -> None:
    """Check that this machine has the GPUs.

    Raises:
        ConfigError: a GPU is not there.
    """
    number = torch.cuda.device_count() if gpus else 0
    for gpu in gpus:
        if gpu >= number:
            raise ConfigError(f"there is no GPU {gpu}: this machine has {number}", field="--gpus")


def _start_followers(gpus: Sequence[int]) -> tuple[Store, list[subprocess.Popen[bytes]]]:
    """Return the store for the ranks, to be held until they end, and the followers."""
    check_gpus(gpus)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.environ |= {
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        _STORE_IS_THERE: str(True),
        "WORLD_SIZE": str(len(gpus)),
        "RANK": "0",
        "LOCAL_RANK": "0",
    }
    command = [sys.executable, "-m", "assay_trainer.learner.follower"]
    return store, [
        subprocess.Popen(command, env=os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(1, len(gpus))
    ]


def _check_start(processes: Sequence[subprocess.Popen[bytes]], stop: Stop) -> None:
    """Raise Stopped if a stop was asked for, Unreachable if a process has ended."""
    stop.check()
    for rank, process in enumerate(processes, start=1):
        if (code := process.poll()) is not None:
            raise Unreachable(
                f"process {rank} of this training ended with code {code} as it started",
                service="trainer",
                hint="its own messages say why",
            )
