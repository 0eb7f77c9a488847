"""Buffers lent to several workers on one GPU. Here they are in the memory of one process."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch

from assay_shared.standalone.weight_transfer import cuda_ipc
from assay_shared.standalone.weight_transfer.limit import Limit, TransferFailed
from assay_shared.standalone.weight_transfer.manifest import plan_buckets
from assay_shared.standalone.weight_transfer.receiving import Receiver
from assay_shared.standalone.weight_transfer.sending import Sender
from tests.unit.shared.standalone.weight_transfer.test_sending import (
    BUCKET_BYTES,
    CPU,
    Sending,
    make_weights,
    manifest,
)

NUM_WORKERS = 3
Weights = dict[str, torch.Tensor]


class LentMemory:
    """Counts the openings of each handle, as torch does."""

    def __init__(self) -> None:
        self._buffers: list[torch.Tensor] = []
        self.num_openings: Counter[int] = Counter()

    def export(self, buffer: torch.Tensor) -> str:
        self._buffers.append(buffer)
        return json.dumps(len(self._buffers) - 1)

    def open(self, exported: str, num_bytes: int, device: torch.device) -> torch.Tensor:
        handle = int(json.loads(exported))
        self.num_openings[handle] += 1
        assert self._buffers[handle].numel() == num_bytes
        return self._buffers[handle]

    @property
    def num_exported(self) -> int:
        return len(self._buffers)


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> LentMemory:
    memory = LentMemory()
    monkeypatch.setattr(cuda_ipc, "export", memory.export)
    monkeypatch.setattr(cuda_ipc, "open_buffer", memory.open)
    monkeypatch.setattr(cuda_ipc, "release_closed", lambda: None)
    monkeypatch.setattr(cuda_ipc, "settle", lambda device: None)
    return memory


@contextmanager
def lending(num_workers: int = NUM_WORKERS) -> Iterator[Sender]:
    sender = Sender("ipc", "127.0.0.1", num_workers, CPU)
    try:
        yield sender
    finally:
        sender.close()


def join(sender: Sender, number: int) -> list[Receiver]:
    return [Receiver("ipc", sender.meeting, rank, number + 1, CPU) for rank in range(1, number + 1)]


def copied(
    receiver: Receiver,
    version: int,
    weights: Weights,
    on_tensor: Callable[[str], None] = lambda name: None,
) -> Weights:
    """Return what a worker takes over, tensor by tensor."""
    buckets = plan_buckets(manifest(weights), BUCKET_BYTES)
    found = {}
    for name, tensor in receiver.receive(version, buckets, Limit(60), keep=False):
        on_tensor(name)
        found[name] = tensor.clone()
    return found


def are_same(found: Weights, expected: Weights) -> bool:
    return list(found) == list(expected) and all(
        torch.equal(found[name], expected[name]) for name in expected
    )


def test_each_worker_opens_its_own_handles_once_and_gets_every_version(
    memory: LentMemory,
) -> None:
    with lending() as sender, ThreadPoolExecutor(NUM_WORKERS) as pool:
        receivers = join(sender, NUM_WORKERS)
        for version in (1, 2, 3):
            weights = make_weights(version)
            sending = Sending(sender, version, weights)
            given = [pool.submit(copied, one, version, weights) for one in receivers]
            assert all(are_same(one.result(60), weights) for one in given)
            sending.join()
            assert sending.error is None
    assert memory.num_exported == 3 * 2 * NUM_WORKERS, "two buffers a version"
    assert memory.num_openings == Counter(range(memory.num_exported))


def test_a_buffer_is_filled_again_only_when_the_slowest_has_freed_it() -> None:
    weights = make_weights(0)
    read_by_slow: list[str] = []
    packed: list[tuple[str, int]] = []

    def slowly(name: str) -> None:
        time.sleep(0.05)
        read_by_slow.append(name)

    def tensor_of(name: str) -> torch.Tensor:
        packed.append((name, len(read_by_slow)))
        return weights[name]

    buckets = plan_buckets(manifest(weights), BUCKET_BYTES)
    names = [[slot.entry.name for slot in bucket.slots] for bucket in buckets]
    assert len(buckets) > 2, "a buffer is used again"
    with lending() as sender, ThreadPoolExecutor(NUM_WORKERS) as pool:
        slow, *quick = join(sender, NUM_WORKERS)
        sending = Sending(sender, 1, weights, tensor_of=tensor_of)
        given = [pool.submit(copied, one, 1, weights) for one in quick]
        given.append(pool.submit(copied, slow, 1, weights, slowly))
        assert all(are_same(one.result(60), weights) for one in given)
        sending.join()
    num_read_before = dict(packed)
    third = names[2][0]
    assert num_read_before[third] >= len(names[0]), "the slow one had read the first bucket"


def test_a_worker_that_dies_fails_the_transfer_in_time_and_frees_the_others() -> None:
    weights = make_weights(0)
    with lending() as sender, ThreadPoolExecutor(NUM_WORKERS) as pool:
        dying, *others = join(sender, NUM_WORKERS)
        sending = Sending(sender, 1, weights, limit_s=0.5)
        waiting: list[Future[Weights]] = [pool.submit(copied, one, 1, weights) for one in others]
        buckets = plan_buckets(manifest(weights), BUCKET_BYTES)
        assert next(dying.receive(1, buckets, Limit(60), keep=False))[0] == "w0"
        sending.join()
        assert "worker 1 of 3 did not come within 0.5 s" in str(sending.error)
        started = time.monotonic()
        for one in waiting:
            with pytest.raises(TransferFailed, match="the trainer gave the transfer up"):
                one.result(60)
        assert time.monotonic() - started < 10
    with lending() as sender, ThreadPoolExecutor(NUM_WORKERS) as pool:  # all meet again
        sending = Sending(sender, 2, weights)
        given = [pool.submit(copied, one, 2, weights) for one in join(sender, NUM_WORKERS)]
        assert all(are_same(one.result(60), weights) for one in given)
        sending.join()


def test_a_transfer_that_is_called_off_is_over_for_all_at_once() -> None:
    """Inference has answered that it failed on one worker."""
    weights = make_weights(0)
    with lending() as sender, ThreadPoolExecutor(NUM_WORKERS) as pool:
        _, *others = join(sender, NUM_WORKERS)
        waiting = Limit(60)
        sending = Sending(sender, 1, weights, waiting=waiting)
        given = [pool.submit(copied, one, 1, weights) for one in others]
        threading.Timer(0.2, waiting.cancel).start()
        sending.join()
        assert "cancelled while waiting for the engine's worker 1 of 3" in str(sending.error)
        for one in given:
            with pytest.raises(TransferFailed, match="the trainer gave the transfer up"):
                one.result(20)
