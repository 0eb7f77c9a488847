"""Publishes weights: written fully, renamed in an atomic step, served only after their proof."""

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import torch
from torch.func import functional_call
from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.clients import InferenceClient
from assay_shared.clients.weight_upload import upload_weights
from assay_shared.errors import InfrastructureError, InvalidInput
from assay_shared.interfaces import WeightSink
from assay_shared.telemetry.tracing import span
from assay_shared.types import (
    AdapterWeights,
    FolderWeights,
    LogprobProbe,
    PolicyVersion,
    SyncMode,
    UploadedWeights,
    WeightStatus,
    WeightUpdate,
)
from assay_trainer.weights.adapter import (
    adapter_off,
    has_adapter,
    merged_layers,
    publish_adapter,
)
from assay_trainer.weights.direct import DirectTransfer
from assay_trainer.weights.folder import publish_policy
from assay_trainer.weights.served_dtype import as_served, served_dtype
from assay_trainer.weights.sharded import gathered_layers, shards_of
from assay_trainer.weights.versions import VersionLog

_KEPT_VERSIONS = 3


class WeightPublisher:
    """Publishes versions of the policy to inference."""

    def __init__(
        self,
        folder: Path,
        connect: Callable[[], InferenceClient],
        probe_ids: list[int],
        transfer: Literal["folder", "upload"] = "folder",
        direct: DirectTransfer | None = None,
        on_fallback: Callable[[int, str], None] = lambda version, reason: None,
        twins: Callable[[], Mapping[str, Path]] = dict,
    ) -> None:
        """Store the parts of a run.

        Args:
            probe_ids: fixed token ids; their log-probabilities prove the weights have landed.
            direct: tried first, once a folder has shown that inference serves the same
                configuration and vocabulary; a folder is also the fallback.
            on_fallback: gets the version and the reason for a fallback to a folder.
            twins: returns files of the run by their SHA-256; a version shares equal ones.
        """
        self._transfer = transfer
        #: Digest and folder of what inference served last.
        self._served: tuple[str, Path] | None = None
        self._folder = folder
        self._connect = connect
        self._probe_ids = probe_ids
        self.published = VersionLog(folder / "published.jsonl")
        self._direct = direct
        self._on_fallback = on_fallback
        self._twins = twins
        self._last: WeightUpdate | None = None
        self._last_folder = folder
        #: The model that was last published whole by a folder, and its announcement.
        self._base: tuple[PreTrainedModel, WeightUpdate] | None = None
        #: The configuration that inference compared with its engine's.
        self._compared: str | None = None
        #: Of a last version that is in memory alone.
        self._model: tuple[PreTrainedModel, PreTrainedTokenizerBase] | None = None
        self._checked_at = 0.0

    def publish(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        mode: SyncMode = SyncMode.WAIT,
    ) -> WeightStatus:
        """Return once inference serves the model as the next version.

        Of a model with an adapter, the adapter alone is sent where inference takes one, after its
        base as an own version.

        Raises:
            WeightsRefused: inference did not load this model.
            Conflict: another trainer publishes to the same inference.
        """
        with span("weights.publish") as publishing:
            status = self._publish(model, tokenizer, mode)
            if status.policy is not None:
                publishing.note(version=status.policy.version)
            return status

    def _publish(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, mode: SyncMode
    ) -> WeightStatus:
        served = asyncio.run(self._status())
        is_adapter = self._sends_adapter(model, served)
        if is_adapter and not self._has_base(model, served):
            with adapter_off(model):
                served = self._publish(model, tokenizer, mode)
        version = max(self.published.newest, served.newest_version) + 1
        proof = probe(model, self._probe_ids)
        status = None
        if model.config.to_json_string() == self._compared:
            status = self._publish_directly(model, served, version, proof, mode=mode)
        if status is not None:
            self._model = model, tokenizer
            return status
        if is_adapter:
            update = self._write_adapter(model, version, proof)
        else:
            update = self._write(model, tokenizer, version, proof)
        self._last = update.model_copy(update={"mode": mode})
        self._model = None
        self.published.add(self._last.policy)
        sent = asyncio.run(self._send(self._last))
        if not is_adapter:
            self._base = model, self._last
        self._compared = model.config.to_json_string()
        self._served = (self._last.policy.digest, self._last_folder)
        self._forget_old()
        return sent

    def ensure_served(self, every_s: float = 5.0) -> None:
        """Publish the last version again if inference restarted without it."""
        if self._last is None or time.monotonic() - self._checked_at < every_s:
            return
        self._checked_at = time.monotonic()
        status, policy = asyncio.run(self._status()), self._last.policy
        if status.policy is not None and status.policy.version >= policy.version:
            return
        if self._model is not None:
            model, proof = self._model[0], self._last.probe
            assert proof is not None
            if self._publish_directly(model, status, policy.version, proof, policy.digest):
                return
            self._last = self._write(*self._model, policy.version, proof, policy)
            self._model = None
        if isinstance(self._last.source, AdapterWeights):
            assert self._base is not None
            asyncio.run(self._send(self._base[1]))
        asyncio.run(self._send(self._last))

    def _sends_adapter(self, model: PreTrainedModel, served: WeightStatus) -> bool:
        """Return True if a version is an adapter alone: neither uploads nor routers take one."""
        by_folder = self._transfer == "folder" and self._direct is None and not served.replicas
        return by_folder and has_adapter(model)

    def _has_base(self, model: PreTrainedModel, served: WeightStatus) -> bool:
        """Return True if inference serves this model's base, or an adapter on it."""
        is_ours = self._last is not None and served.policy == self._last.policy
        return is_ours and self._base is not None and self._base[0] is model

    def _publish_directly(
        self,
        model: PreTrainedModel,
        served: WeightStatus,
        version: int,
        proof: LogprobProbe,
        digest: str | None = None,
        mode: SyncMode = SyncMode.WAIT,
    ) -> WeightStatus | None:
        """Return the status after a direct transfer; None if a folder is needed."""
        if self._direct is None:
            return None
        if served.receiver is None:
            if served.policy is not None:  # else no engine has started yet
                self._on_fallback(version, _why_by_folder(served))
            self._direct.close()  # engines that start again meet only at a new meeting
            return None
        try:
            self._last, status = self._direct.publish(
                model, served.receiver, version, proof, digest, self.published.add, mode
            )
        except (InfrastructureError, InvalidInput) as error:
            self._on_fallback(version, str(error))
            return None
        return status

    def _write(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        version: int,
        proof: LogprobProbe,
        policy: PolicyVersion | None = None,
    ) -> WeightUpdate:
        """Write the model as a folder; `policy` is its earlier version, under another digest."""
        folder = self._folder / f"v{version:06d}"
        digest = publish_policy(model, tokenizer, folder, self._twins())
        self._last_folder = folder
        files_digest = None if policy is None else digest
        return WeightUpdate(
            source=FolderWeights(path=str(folder.resolve()), files_digest=files_digest),
            policy=policy or PolicyVersion(version=version, digest=digest),
            probe=proof,
        )

    def _write_adapter(
        self, model: PreTrainedModel, version: int, proof: LogprobProbe
    ) -> WeightUpdate:
        """Write the model's adapter as a folder with an own name."""
        assert self._base is not None
        base, folder = self._base[1].policy.digest, self._folder / f"v{version:06d}"
        digest = publish_adapter(model, folder, base)
        return WeightUpdate(
            source=AdapterWeights(path=str(folder.resolve()), base=base),
            policy=PolicyVersion(version=version, digest=digest),
            probe=proof,
        )

    async def _status(self) -> WeightStatus:
        async with self._connect() as client:
            sink: WeightSink = client
            return await sink.weight_status()

    async def _send(self, update: WeightUpdate) -> WeightStatus:
        async with self._connect() as client:
            if self._transfer == "upload":
                uploaded = await upload_weights(client, self._last_folder, self._served)
                update = update.model_copy(update={"source": UploadedWeights(upload=uploaded.id)})
            return await client.update_weights(update)

    def _forget_old(self) -> None:
        """Delete old folders, but the newest (an engine may restart from them) and a used base."""
        base = self._base and self._base[1].source
        kept = Path(base.path).name if isinstance(base, FolderWeights) else ""
        for folder in sorted(self._folder.glob("v*"))[:-_KEPT_VERSIONS]:
            if folder.name != kept:
                shutil.rmtree(folder)


def _why_by_folder(served: WeightStatus) -> str:
    for name, one in served.replicas.items():
        if one.failure is not None or one.policy != served.policy:
            assert served.policy is not None
            why = "" if one.failure is None else f": {one.failure.message}"
            return f"{name} does not serve version {served.policy.version}{why}"
    if served.replicas:
        return f"inference is {len(served.replicas)} engines behind one address: they take folders"
    return "inference's engine takes folders only"


def probe(model: PreTrainedModel, token_ids: list[int]) -> LogprobProbe:
    """Return the log-probabilities of a fixed sequence, under the weights as they are served."""
    was_training = model.training
    model.eval()
    ids_1T = torch.tensor([token_ids], device=model.device)
    # A hollow model gets its weights while it computes, in the served types.
    is_hollow = shards_of(model) is not None
    served = {} if is_hollow else as_served(model, dict(model.named_parameters()))
    with torch.no_grad(), merged_layers(model), gathered_layers(model):
        found = functional_call(model, served, kwargs={"input_ids": ids_1T, "use_cache": False})
    logits_TV = found.logits[0, :-1].float()
    model.train(was_training)
    logprobs_T = logits_TV.log_softmax(dim=-1).gather(1, ids_1T[0, 1:, None])[:, 0]
    return LogprobProbe.model_validate(
        {
            "token_ids": token_ids,
            "logprobs": logprobs_T.tolist(),
            "dtype": str(served_dtype(model)).removeprefix("torch."),
        }
    )
