"""Weights sent from a trainer's memory: checks of the announcement, the arrival and the result."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from assay_inference.weights.attest import Coverage, Whole, compare_whole
from assay_inference.weights.checkpoint import Checkpoint, WorkerPlace
from assay_inference.weights.safetensors import Tensor
from assay_shared.errors import AssayError, Unreachable, WeightsRefused
from assay_shared.standalone.weight_transfer.manifest import ManifestEntry, digest_of
from assay_shared.types import DirectWeights, PolicyVersion, WeightReceiver, WeightUpdate

_HINT = "an engine takes new weights of the model that it was started with"


def open_checkpoint(
    source: DirectWeights,
    update: WeightUpdate,
    base: Checkpoint | None,
    receiver: WeightReceiver | None,
    place: WorkerPlace | None = None,
) -> Checkpoint:
    """Return the announced checkpoint; nothing is fetched yet.

    Raises:
        WeightsRefused: no engine has run yet, or the announced model differs from `base`.
    """
    if base is None or receiver is None:
        raise WeightsRefused("the first version has to come by a folder", field="source.kind")
    check_manifest(source, update.policy, base.layout, receiver)
    return base.with_weights(source, update.policy, update.probe, place)


def why_gone(served: Checkpoint | None) -> str:
    """Return the reason why no older weights can be served again."""
    if served is None:
        return "the new weights did not arrive, and there are no older ones"
    return (
        f"version {served.policy.version} came directly from a trainer's memory and is in no "
        "folder; it has to be published again"
    )


def check_manifest(
    source: DirectWeights,
    policy: PolicyVersion,
    served: Mapping[str, Tensor],
    receiver: WeightReceiver,
) -> None:
    """Raise WeightsRefused unless the manifest has the announced digest and fits the engine."""
    digest = digest_of(_entries(source))
    if digest != policy.digest:
        raise WeightsRefused(
            f"the manifest has digest {digest[:12]}..., not {policy.digest[:12]}...",
            field="policy.digest",
        )
    sent = {tensor.name: tensor for tensor in source.tensors}
    for name in sorted(served.keys() | sent.keys()):
        if name not in sent or name not in served:
            what = "new" if name in sent else "missing"
            raise WeightsRefused(f"{name} is {what}: this is another architecture", hint=_HINT)
        if sent[name].shape != served[name].shape:
            raise WeightsRefused(
                f"{name} is {list(sent[name].shape)}, where {list(served[name].shape)} is served: "
                "this is another architecture",
                hint=_HINT,
            )
        if sent[name].dtype != receiver.dtype:
            raise WeightsRefused(
                f"{name} is {sent[name].dtype}, and the engine keeps weights in {receiver.dtype}",
                hint="send them in the type that GET /v1/weights shows",
            )
    if source.transport == "ipc" and len(set(receiver.devices)) > 1:
        raise WeightsRefused("ipc reaches one GPU, and the engine is on several")


def call(
    source: DirectWeights, num_workers: int, place: WorkerPlace | None = None
) -> dict[str, object]:
    """Return the message for each worker: transport, meeting point, entries.

    Args:
        num_workers: of the engine.
        place: where the transfer reaches further engines.
    """
    return {
        "transport": source.transport,
        "meeting": [source.host, source.port, source.token],
        "announcement": source.announcement,
        "first_worker": 0 if place is None else place.first,
        "num_workers": num_workers if place is None else place.num_workers,
        "bucket_bytes": source.bucket_bytes,
        "entries": [list(entry) for entry in _entries(source)],
    }


@contextmanager
def telling(checkpoint: Checkpoint) -> Iterator[None]:
    """Tell the others of a transfer to several engines at once if this engine's part fails."""
    try:
        yield
    except AssayError as error:
        if checkpoint.place is not None:
            checkpoint.place.on_failure(error)
        raise


def check_arrival(answers: Sequence[Mapping[str, Any]]) -> None:
    """Raise WeightsRefused if a worker did not get everything, Unreachable if a worker hangs."""
    for answer in answers:
        if answer.get("is_hung"):
            raise Unreachable(f"a worker hangs in the transfer: {answer['failure']}")
    for answer in answers:
        if answer.get("failure"):
            raise WeightsRefused(f"the weights did not arrive: {answer['failure']}")


def compare_with_manifest(
    source: DirectWeights,
    found: Sequence[Mapping[str, Any]],
    samples: Sequence[Mapping[str, Sequence[Any]]],
    digests: Sequence[Mapping[str, Sequence[Any]]],
) -> Coverage:
    """Compare the engine's weights with the trainer's announcement; return the coverage.

    Args:
        found: for each worker, the fingerprints of tensors kept in the layout in which they came.
        samples: for each worker, by tensor copied by a kernel into another layout: its piece, and a
            sample's digest at arrival. The arrived tensor had the manifest's fingerprint.
        digests: for each worker, the same for the copies used by its kernels.

    Raises:
        WeightsRefused: something differs, or nothing could be compared.
    """
    expected = {tensor.name: Whole(tensor.shape, tensor.fingerprint) for tensor in source.tensors}
    compared, differing = compare_whole(expected, [worker["fingerprints"] for worker in found])
    for came, kept in zip(samples, digests, strict=True):
        for name, (_, sample) in came.items():
            compared.add(name)
            if set(kept[name][1]) != {sample}:
                differing.add(name)
    if differing:
        raise WeightsRefused(
            f"the engine's own {min(differing)} differs from the trainer's: the weights did not "
            "land"
        )
    if not compared:
        raise WeightsRefused("none of the engine's weights could be compared with the trainer's")
    return Coverage(len(compared), len(expected))


def _entries(source: DirectWeights) -> list[ManifestEntry]:
    return [ManifestEntry(t.name, t.shape, t.dtype, t.fingerprint) for t in source.tensors]
