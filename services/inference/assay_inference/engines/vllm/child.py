"""vLLM with a checkpoint in it."""

import asyncio
import time
from typing import Any

from assay_inference.engines.child.child import EngineChild, Sync
from assay_inference.engines.engine import ResolvedUpdate
from assay_inference.engines.vllm.http import VllmApi
from assay_inference.engines.vllm.process import VllmProcess
from assay_inference.settings import InferenceSettings
from assay_inference.weights import direct
from assay_inference.weights.attest import Arithmetic, Coverage, compare_digests
from assay_inference.weights.checkpoint import Checkpoint
from assay_inference.weights.full_digest import compare_all
from assay_shared.errors import InvalidInput, Unreachable, WeightsRefused
from assay_shared.types import (
    DirectWeights,
    SamplingParams,
    WeightDigest,
    WeightReceiver,
)

#: The workers keep to the limit themselves; a child that has not answered by then is ended.
_TRANSFER_GRACE_S = 10.0
_LEAST_TEMPERATURE, _MOST_TEMPERATURE = 0.01, 2.0
_WARM_UP = SamplingParams(max_tokens=2, top_p=0.9, seed=0)


class VllmReplica(EngineChild):
    """A vLLM server; its workers' own methods load and compare weights."""

    name = "vLLM"
    metrics_prefix = "vllm:"
    cache_use_metric = "vllm:kv_cache_usage_perc"

    def __init__(self, settings: InferenceSettings, checkpoint: Checkpoint) -> None:
        super().__init__(settings, checkpoint)
        self._process = VllmProcess(settings, checkpoint)
        self._api = VllmApi(self._process.socket)
        self._samples: list[dict[str, list[Any]]] = []

    @property
    def process(self) -> VllmProcess:
        return self._process

    @property
    def api(self) -> VllmApi:
        return self._api

    @property
    def arithmetic(self) -> Arithmetic:
        assert self.receiver is not None
        return Arithmetic(self.receiver.dtype, on_gpu="cpu" not in self.receiver.devices)

    @classmethod
    def check_sampling(cls, sampling: SamplingParams, settings: InferenceSettings) -> None:
        """Check the temperature: vLLM refuses high values, and silently raises very low ones."""
        temperature = sampling.temperature
        if temperature > _MOST_TEMPERATURE or 0 < temperature < _LEAST_TEMPERATURE:
            raise InvalidInput(
                f"vLLM takes 0 and {_LEAST_TEMPERATURE:g} to {_MOST_TEMPERATURE:g}",
                field="sampling.temperature",
            )

    @classmethod
    def check_update(cls, update: ResolvedUpdate) -> None:
        """Accept all modes and sources."""

    async def _prepare(self, limit_s: float) -> int:
        workers = await self.api.rpc("assay_prepare", limit_s)
        devices = tuple(str(worker["device"]) for worker in workers)
        self.receiver = WeightReceiver(devices=devices, dtype=str(workers[0]["dtype"]))
        # The first draw compiles what the others use, and may take long for it.
        await self.api.generate([0], _WARM_UP, frozenset(), limit_s)
        return await self.api.max_length(limit_s)

    async def _load(self, checkpoint: Checkpoint, sync: Sync) -> None:
        limit_s = self._settings.inference_load_timeout_s
        await self.api.pause(limit_s)
        if checkpoint.direct is None:
            folder = str(checkpoint.folder.resolve())
            stored = [tensor.stored_as(name) for name, tensor in checkpoint.layout.items()]
            with sync.phase("load"):
                await self._call("assay_read", folder, limit_s, folder=folder, stored=stored)
        else:
            await self._receive(checkpoint.direct, checkpoint, sync)
        with sync.phase("load"):
            await self.api.rpc("assay_repack", limit_s)
            await self.api.reset_prefix_cache(limit_s)
            await self.api.resume(limit_s)

    async def _call(
        self, method: str, what: str, timeout_s: float, **arguments: object
    ) -> list[dict[str, Any]]:
        """Have the workers load `what` with a method of theirs, and return their answers."""
        try:
            return await self.api.rpc(method, timeout_s, **arguments)
        except Unreachable as error:
            if await self.is_alive():
                raise WeightsRefused(f"vLLM cannot load {what}: {error}") from error
            raise

    async def _receive(self, source: DirectWeights, checkpoint: Checkpoint, sync: Sync) -> None:
        """Have the workers fetch the weights from the trainer.

        Raises:
            WeightsRefused: they did not arrive.
            Unreachable: they did not, and only the end of the child stops the transfer.
        """
        assert self.receiver is not None
        limit_s = self._settings.inference_transfer_timeout_s
        started = time.perf_counter()
        answers = await self._call(
            "assay_receive",
            "what the trainer sent",
            limit_s + _TRANSFER_GRACE_S,
            source=direct.call(source, len(self.receiver.devices), checkpoint.place),
            seed=checkpoint.policy.digest,
            limit_s=limit_s,
        )
        direct.check_arrival(answers)
        took_s = time.perf_counter() - started
        load_s = max(float(answer["load_s"]) for answer in answers)
        sync.phases_s["transfer"] = took_s - load_s
        sync.phases_s["load"] = load_s
        self._samples = [answer["samples"] for answer in answers]

    async def _compare(self) -> Coverage:
        if self.checkpoint.direct is None:
            return await self._compare_with_files(sorted(self.checkpoint.layout))
        return await self._compare_with_manifest(self.checkpoint.direct)

    async def _digests(self, names: list[str]) -> list[dict[str, Any]]:
        limit_s = self._settings.inference_load_timeout_s
        seed = self.checkpoint.policy.digest
        answers = await self.api.rpc("assay_digests", limit_s, names=names, seed=seed)
        return [answer["digests"] for answer in answers]

    async def _compare_with_files(self, names: list[str]) -> Coverage:
        assert self.receiver is not None
        checkpoint = self.checkpoint
        return await asyncio.to_thread(
            compare_digests,
            checkpoint.layout,
            await self._digests(names),
            checkpoint.policy.digest,
            self.receiver.dtype,
        )

    async def _compare_with_manifest(self, source: DirectWeights) -> Coverage:
        packed = sorted({name for worker in self._samples for name in worker})
        digests = await self._digests(packed) if packed else [{} for _ in self._samples]
        found = await self.fingerprints()
        return direct.compare_with_manifest(source, found, self._samples, digests)

    async def fingerprints(self) -> list[dict[str, Any]]:
        """Return each worker's `fingerprints` by tensor, and the names of `sampled` tensors."""
        limit_s = self._settings.inference_load_timeout_s
        return await self.api.rpc(
            "assay_fingerprints", limit_s, names=sorted(self.checkpoint.layout)
        )

    async def digest(self) -> WeightDigest:
        """Compare all of the engine's weights with the checkpoint or the manifest."""
        assert self.receiver is not None
        started = time.perf_counter()
        found = await self.fingerprints()
        packed = sorted({name for worker in found for name in worker["sampled"]})
        digests = await self._digests(packed) if packed else []
        engine_s = time.perf_counter() - started
        return await asyncio.to_thread(
            compare_all,
            self.checkpoint,
            self.receiver.dtype,
            [worker["fingerprints"] for worker in found],
            (digests, self._samples),
            engine_s,
        )

    async def _ping(self, timeout_s: float) -> None:
        await self.api.rpc("assay_alive", timeout_s)
