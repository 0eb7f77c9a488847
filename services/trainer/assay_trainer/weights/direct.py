"""Weights straight from this process's memory into an engine's, with no folder between them."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Literal

import torch
from transformers import PreTrainedModel

from assay_shared.clients import InferenceClient
from assay_shared.errors import AssayError, ConfigError, WeightsRefused
from assay_shared.settings.environment import ServiceSettings
from assay_shared.standalone.weight_transfer.fingerprint import as_text, fingerprints
from assay_shared.standalone.weight_transfer.limit import Limit, TransferFailed
from assay_shared.standalone.weight_transfer.manifest import (
    Bucket,
    ManifestEntry,
    digest_of,
    plan_buckets,
)
from assay_shared.standalone.weight_transfer.sending import Sender
from assay_shared.types import (
    DirectWeights,
    LogprobProbe,
    PolicyVersion,
    SyncMode,
    TensorSpec,
    WeightReceiver,
    WeightStatus,
    WeightUpdate,
)
from assay_trainer.weights.safetensors_writer import named_weights
from assay_trainer.weights.sharded import Shards, bucket_reader, shards_of

Transport = Literal["nccl", "ipc", "gloo"]
#: The engine may wait for sequences in flight before it fetches anything.
_LONGEST_WAIT_S = 3600.0
#: What the engine has is confirmed to the sender a little later than to who announced it.
_LAST_WORD_S = 5.0


class DirectTransfer:
    """A direct transfer of weights; it keeps its connection to the workers between versions."""

    def __init__(self, settings: ServiceSettings, connect: Callable[[], InferenceClient]) -> None:
        """Take `connect`: clients without retries, because a transfer cannot be repeated."""
        self._settings = settings
        self._connect = connect
        self._sender: Sender | None = None
        self._num_announced = 0
        self._reaches: tuple[Transport, WeightReceiver] | None = None

    def publish(
        self,
        model: PreTrainedModel,
        receiver: WeightReceiver,
        version: int,
        probe: LogprobProbe,
        digest: str | None = None,
        on_announced: Callable[[PolicyVersion], None] = lambda policy: None,
        mode: SyncMode = SyncMode.WAIT,
    ) -> tuple[WeightUpdate, WeightStatus]:
        """Return the announcement and inference's status once inference serves the weights.

        Raises:
            WeightsRefused: they did not land, or are not the weights of `digest`.
            AssayError: another failure of inference; only inference knows the served version then.
        """
        tensors = named_weights(model)
        manifest = manifest_of(tensors, receiver.dtype, shards_of(model))
        if digest is not None and digest != digest_of(manifest):
            raise WeightsRefused(f"the weights of version {version} are no longer in memory")
        transport, device = transport_to(receiver, model.device)
        sender = self._sender_to(transport, receiver, device)
        self._num_announced += 1
        update = WeightUpdate(
            source=DirectWeights(
                transport=transport,
                **sender.meeting._asdict(),
                announcement=self._num_announced,
                bucket_bytes=self._settings.weight_transfer_bucket_bytes,
                tensors=tuple(TensorSpec(**entry._asdict()) for entry in manifest),
            ),
            policy=PolicyVersion(version=version, digest=digest_of(manifest)),
            probe=probe,
            mode=mode,
        )
        on_announced(update.policy)
        if model.device.type == "cuda":
            torch.cuda.synchronize(model.device)
        try:
            buckets = plan_buckets(manifest, self._settings.weight_transfer_bucket_bytes)
            reader = bucket_reader(model, tensors, buckets)
            return update, self._send(sender, update, buckets, reader)
        except AssayError:
            self.close()
            raise

    def close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

    def _sender_to(
        self, transport: Transport, receiver: WeightReceiver, device: torch.device
    ) -> Sender:
        if self._sender is None or self._reaches != (transport, receiver):
            self.close()
            host = self._settings.weight_transfer_host
            try:
                self._sender = Sender(transport, host, len(receiver.devices), device)
            except TransferFailed as error:
                raise ConfigError(str(error), field="ASSAY_WEIGHT_TRANSFER_HOST") from error
            self._reaches = (transport, receiver)
        return self._sender

    def _send(
        self,
        sender: Sender,
        update: WeightUpdate,
        buckets: Sequence[Bucket],
        tensor_of: Callable[[str], torch.Tensor],
    ) -> WeightStatus:
        """Announce the version, and serve the workers meanwhile."""
        waiting, limit_s = Limit(_LONGEST_WAIT_S), self._settings.weight_transfer_timeout_s
        number = self._num_announced

        def send() -> None:
            try:
                sender.send(number, buckets, tensor_of, waiting, limit_s)
            except (TransferFailed, AssayError):  # the latter from another rank
                sender.close()  # the engine learns at once that nothing more comes
                raise

        with ThreadPoolExecutor(1, "weights") as pool:
            sending = pool.submit(send)
            try:
                status = asyncio.run(self._announce(update))
                wait([sending], _LAST_WORD_S)
            finally:
                waiting.cancel()  # of no effect where all was sent
        if sending.exception() is not None:  # inference had the version already
            self.close()
        return status

    async def _announce(self, update: WeightUpdate) -> WeightStatus:
        async with self._connect() as sink:
            return await sink.update_weights(update)


def manifest_of(
    tensors: dict[str, torch.Tensor], dtype: str, shards: Shards | None = None
) -> list[ManifestEntry]:
    """Return each tensor in the engine's dtype, with its fingerprint."""
    kept: torch.dtype = getattr(torch, dtype)
    known = shards.fingerprints(kept) if shards is not None else {}
    rest = {name: tensor for name, tensor in tensors.items() if name not in known}
    found = fingerprints((tensor.to(kept), 0, 0) for tensor in rest.values())
    known |= dict(zip(rest, found, strict=True))
    return [
        ManifestEntry(name, tuple(tensor.shape), dtype, as_text(known[name]))
        for name, tensor in tensors.items()
    ]


def transport_to(receiver: WeightReceiver, device: torch.device) -> tuple[Transport, torch.device]:
    """Return the transport from `device`, and the device of the buffers to send.

    NCCL reaches a GPU per process and takes no two processes on a GPU. Several processes on one
    GPU read buffers that are lent there, if this process can use that GPU too.
    """
    if device.type != "cuda" or "cpu" in receiver.devices:
        return "gloo", device
    own, taken = _identity(device), set(receiver.devices)
    if own not in taken and len(taken) == len(receiver.devices):
        return "nccl", device
    visible = (torch.device("cuda", index) for index in range(torch.cuda.device_count()))
    lent = next((gpu for gpu in visible if {_identity(gpu)} == taken), None)
    return ("gloo", device) if lent is None else ("ipc", lent)


def _identity(gpu: torch.device) -> str:
    return str(torch.cuda.get_device_properties(gpu).uuid)
