"""Both ends of a direct transfer, over gloo, in two threads of a process."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from assay_shared.standalone.weight_transfer.fingerprint import as_text, fingerprint
from assay_shared.standalone.weight_transfer.limit import Limit, TransferFailed
from assay_shared.standalone.weight_transfer.manifest import (
    Bucket,
    ManifestEntry,
    digest_of,
    plan_buckets,
)
from assay_shared.standalone.weight_transfer.meeting import Meeting, open_store
from assay_shared.standalone.weight_transfer.packing import pack, view
from assay_shared.standalone.weight_transfer.receiving import Receiver
from assay_shared.standalone.weight_transfer.sending import Sender

BUCKET_BYTES = 40_000
CPU = torch.device("cpu")


def make_weights(seed: int) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    shapes = [(7,), (100, 30), (3, 5, 2), (300, 100), (64, 64), (1,)]
    return {f"w{at}": torch.randn(shape, generator=random) for at, shape in enumerate(shapes)}


def manifest(weights: Mapping[str, torch.Tensor], dtype: str = "float32") -> list[ManifestEntry]:
    kept = getattr(torch, dtype)
    return [
        ManifestEntry(name, tuple(tensor.shape), dtype, as_text(fingerprint(tensor.to(kept))))
        for name, tensor in weights.items()
    ]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("bucket_bytes", [1, 5_000, 40_000, 2**30])
def test_what_is_packed_comes_out_as_the_manifest_says(dtype: str, bucket_bytes: int) -> None:
    weights = make_weights(0)
    entries = manifest(weights, dtype)
    buckets = plan_buckets(entries, bucket_bytes)
    assert [slot.entry for bucket in buckets for slot in bucket.slots] == entries
    for bucket in buckets:
        assert len(bucket.slots) == 1 or sum(s.entry.num_bytes for s in bucket.slots) <= (
            bucket_bytes
        )
        buffer = torch.zeros(bucket.num_bytes, dtype=torch.uint8)
        pack(bucket, weights.__getitem__, buffer)
        for slot in bucket.slots:
            assert torch.equal(
                view(buffer, slot), weights[slot.entry.name].to(getattr(torch, dtype))
            )


def test_a_manifests_digest_is_of_its_content_and_not_of_its_order() -> None:
    entries = manifest(make_weights(0))
    assert digest_of(entries) == digest_of(entries[::-1])
    for change in ({"name": "v"}, {"shape": (8,)}, {"dtype": "float16"}, {"fingerprint": "0" * 16}):
        assert digest_of([entries[0]._replace(**change), *entries[1:]]) != digest_of(entries)


@pytest.fixture
def sender() -> Iterator[Sender]:
    sender = Sender("gloo", "127.0.0.1", 1, CPU)
    yield sender
    sender.close()


@pytest.fixture
def receiver(sender: Sender) -> Iterator[Receiver]:
    receiver = Receiver("gloo", sender.meeting, 1, 2, CPU)
    yield receiver
    receiver.close()


def in_background(action: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        try:
            action()
        except TransferFailed:
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


class Sending:
    """A transfer in the background. On a failure it closes the sender, as the trainer does."""

    def __init__(
        self,
        sender: Sender,
        version: int,
        weights: Mapping[str, torch.Tensor],
        *,
        tensor_of: Callable[[str], torch.Tensor] | None = None,
        waiting: Limit | None = None,
        limit_s: float = 60.0,
    ) -> None:
        self.error: TransferFailed | None = None
        buckets = plan_buckets(manifest(weights), BUCKET_BYTES)
        read, waiting = tensor_of or weights.__getitem__, waiting or Limit(60)

        def run() -> None:
            try:
                sender.send(version, buckets, read, waiting, limit_s)
            except TransferFailed as error:
                self.error = error
                sender.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_several_versions_go_over_one_connection(sender: Sender, receiver: Receiver) -> None:
    for version in (1, 2, 3):
        weights = make_weights(version)
        entries = manifest(weights)
        buckets = plan_buckets(entries, BUCKET_BYTES)
        sending = in_background(
            lambda version=version, buckets=buckets, weights=weights: sender.send(  # type: ignore[misc]
                version, buckets, weights.__getitem__, Limit(60), 60
            )
        )
        came = dict(receiver.receive(version, buckets, Limit(60), keep=True))
        sending.join(60)
        assert list(came) == list(weights)
        assert all(torch.equal(came[name], weights[name]) for name in weights)


def test_one_flipped_bit_on_the_way_is_found(sender: Sender, receiver: Receiver) -> None:
    weights = make_weights(0)
    buckets = plan_buckets(manifest(weights), BUCKET_BYTES)
    weights["w3"].view(torch.int32)[299, 99] ^= 1
    in_background(lambda: sender.send(1, buckets, weights.__getitem__, Limit(60), 60))
    came = receiver.receive(1, buckets, Limit(60), keep=True)
    assert [next(came)[0] for _ in range(3)] == ["w0", "w1", "w2"]
    with pytest.raises(TransferFailed, match="w3 did not arrive as it was sent"):
        next(came)


def test_a_trainer_that_gives_up_is_noticed_at_once(sender: Sender, receiver: Receiver) -> None:
    weights = make_weights(0)
    buckets = plan_buckets(manifest(weights), BUCKET_BYTES)

    def tensor_of(name: str) -> torch.Tensor:
        if name == "w4":
            sender.close()
            raise TransferFailed("given up")
        return weights[name]

    in_background(lambda: sender.send(1, buckets, tensor_of, Limit(60), 60))
    started = time.monotonic()
    with pytest.raises(TransferFailed, match="broke off"):
        list(receiver.receive(1, buckets, Limit(60), keep=True))
    assert time.monotonic() - started < 50


@pytest.mark.slow
def test_a_trainer_that_stands_still_costs_no_more_than_the_limit(
    sender: Sender, receiver: Receiver
) -> None:
    weights = make_weights(0)
    buckets = plan_buckets(manifest(weights), BUCKET_BYTES)
    still = threading.Event()

    def tensor_of(name: str) -> torch.Tensor:
        if name == "w4":
            still.wait(60)
        return weights[name]

    sending = in_background(lambda: sender.send(1, buckets, tensor_of, Limit(60), 60))
    with pytest.raises(TransferFailed, match="did not come within 3 s"):
        list(receiver.receive(1, buckets, Limit(3), keep=True))
    started = time.monotonic()
    receiver.close()  # the trainer still stands
    assert time.monotonic() - started < 5
    still.set()
    sending.join(60)


def test_an_engine_that_never_comes_is_waited_for_until_it_is_called_off(sender: Sender) -> None:
    waiting = Limit(60)
    threading.Timer(0.2, waiting.cancel).start()
    with pytest.raises(TransferFailed, match="cancelled while waiting for"):
        sender.send(
            1, plan_buckets(manifest(make_weights(0)), 1), lambda _: torch.ones(1), waiting, 1
        )


@pytest.mark.slow
def test_nobody_at_the_meeting_is_a_failure_and_no_hang() -> None:
    port, store = open_store("127.0.0.1")
    del store
    receiver = Receiver("gloo", Meeting("127.0.0.1", port, "token"), 1, 2, CPU)
    with pytest.raises(TransferFailed, match="the trainer is not at"):
        list(receiver.receive(1, [], Limit(2), keep=True))


def test_an_address_of_another_host_is_refused() -> None:
    with pytest.raises(TransferFailed, match="cannot listen at"):
        open_store("192.0.2.1")


def test_a_receiver_that_left_for_another_trainer_is_met_again(
    sender: Sender, receiver: Receiver
) -> None:
    def send_and_receive(announcement: int, receiver: Receiver) -> None:
        weights = make_weights(announcement)
        buckets = plan_buckets(manifest(weights), BUCKET_BYTES)
        sending = in_background(
            lambda: sender.send(announcement, buckets, weights.__getitem__, Limit(20), 20)
        )
        came = dict(receiver.receive(announcement, buckets, Limit(20), keep=True))
        sending.join(20)
        assert all(torch.equal(came[name], weights[name]) for name in weights)

    send_and_receive(1, receiver)
    receiver.close()
    back = Receiver("gloo", sender.meeting, 1, 2, CPU)
    send_and_receive(2, back)
    send_and_receive(3, back)
    back.close()


def arrivals(
    receiver: Receiver, version: int, buckets: Sequence[Bucket]
) -> dict[str, torch.Tensor]:
    return dict(receiver.receive(version, buckets, Limit(60), keep=True))


def test_one_announcement_reaches_the_workers_of_several_processes() -> None:
    """If one of them starts again, all come to the next meeting."""
    for meeting in (1, 2):
        sender = Sender("gloo", "127.0.0.1", 3, CPU)
        receivers = [Receiver("gloo", sender.meeting, rank, 4, CPU) for rank in (1, 2, 3)]
        for version in (1, 2):
            weights = make_weights(10 * meeting + version)
            buckets = plan_buckets(manifest(weights), BUCKET_BYTES)
            sending = Sending(sender, version, weights)
            with ThreadPoolExecutor(3) as pool:
                given = [pool.submit(arrivals, one, version, buckets) for one in receivers]
                for one in given:
                    assert all(torch.equal(one.result(60)[n], weights[n]) for n in weights)
            sending.join()
        sender.close()
        for receiver in receivers:
            receiver.close()
