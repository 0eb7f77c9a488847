"""Publishing weights: written fully, named by one step, served only once they are proven."""

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch
from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.clients import InferenceClient
from assay_shared.clients.weight_upload import upload_weights
from assay_shared.interfaces import WeightSink
from assay_shared.types import (
    FolderWeights,
    LogprobProbe,
    PolicyVersion,
    SyncMode,
    UploadedWeights,
    WeightStatus,
    WeightUpdate,
)
from assay_trainer.policy import publish_policy
from assay_trainer.published import PublishedVersions

#: Two samplers of the same float32 weights differ in the order of their sums, by far less.
PROBE_TOLERANCE = 5e-3
_KEPT_VERSIONS = 3


class WeightPublisher:
    """Gives inference one version after the other."""

    def __init__(
        self,
        folder: Path,
        connect: Callable[[], InferenceClient],
        probe_ids: list[int],
        transfer: Literal["folder", "upload"] = "folder",
    ) -> None:
        """`probe_ids`: a fixed sequence whose log-probabilities prove that weights landed."""
        self._transfer = transfer
        #: Digest and folder of what inference served last.
        self._served: tuple[str, Path] | None = None
        self._folder = folder
        self._connect = connect
        self._probe_ids = probe_ids
        self.published = PublishedVersions(folder / "published.jsonl")
        self._last: WeightUpdate | None = None
        self._last_folder = folder
        self._checked_at = 0.0

    def publish(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        mode: SyncMode = SyncMode.WAIT,
    ) -> WeightStatus:
        """Write the model and return once inference serves it as the next version.

        Raises:
            WeightsRefused: what inference loaded is not this model.
            Conflict: another trainer publishes to the same inference.
        """
        version = asyncio.run(self._next_version())
        folder = self._folder / f"v{version:06d}"
        digest = publish_policy(model, tokenizer, folder)
        self._last_folder = folder
        self._last = WeightUpdate(
            source=FolderWeights(path=str(folder.resolve())),
            policy=PolicyVersion(version=version, digest=digest),
            probe=probe(model, self._probe_ids),
            mode=mode,
        )
        self.published.add(self._last.policy)
        status = asyncio.run(self._send(self._last))
        self._served = (digest, folder)
        self._forget_old(version)
        return status

    def ensure_served(self, every_s: float = 5.0) -> None:
        """Give the last version again to an inference that was restarted without it."""
        if self._last is None or time.monotonic() - self._checked_at < every_s:
            return
        self._checked_at = time.monotonic()
        asyncio.run(self._send_if_missing(self._last))

    async def _next_version(self) -> int:
        async with self._connect() as sink:
            served = (await sink.weight_status()).policy
        return max(self.published.newest, served.version if served else 0) + 1

    async def _send(self, update: WeightUpdate) -> WeightStatus:
        async with self._connect() as client:
            return await self._give(client, update)

    async def _give(self, client: InferenceClient, update: WeightUpdate) -> WeightStatus:
        if self._transfer == "upload":
            uploaded = await upload_weights(client, self._last_folder, self._served)
            update = update.model_copy(update={"source": UploadedWeights(upload=uploaded.id)})
        return await client.update_weights(update)

    async def _send_if_missing(self, update: WeightUpdate) -> None:
        async with self._connect() as client:
            sink: WeightSink = client
            served = (await sink.weight_status()).policy
            if served is None or served.version < update.policy.version:
                await self._give(client, update)

    def _forget_old(self, version: int) -> None:
        for folder in self._folder.glob("v*"):
            if int(folder.name[1:]) <= version - _KEPT_VERSIONS:
                shutil.rmtree(folder)


def probe(model: PreTrainedModel, token_ids: list[int]) -> LogprobProbe:
    """The model's own log-probabilities of a fixed sequence, in the precision of its weights.

    The class's forward is called: in training on a GPU the instance's computes in bf16, which
    differs by hundredths of a nat from an engine that has the very same weights.
    """
    was_training = model.training
    model.eval()
    ids_1T = torch.tensor([token_ids], device=model.device)
    with torch.no_grad():
        logits_TV = type(model).forward(model, input_ids=ids_1T).logits[0, :-1].float()
    model.train(was_training)
    logprobs_T = logits_TV.log_softmax(dim=-1).gather(1, ids_1T[0, 1:, None])[:, 0]
    return LogprobProbe(
        token_ids=tuple(token_ids), logprobs=tuple(logprobs_T.tolist()), tolerance=PROBE_TOLERANCE
    )
