"""One vLLM with a checkpoint in it: from its start to its end, with proof of what it holds."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from assay_inference import direct
from assay_inference.attest import Coverage, compare_digests, compare_probe
from assay_inference.full_digest import compare_all
from assay_inference.opened import Checkpoint
from assay_inference.settings import InferenceSettings
from assay_inference.vllm_api import VllmApi
from assay_inference.vllm_process import VllmProcess
from assay_shared.errors import TimedOut, Unreachable, WeightsRefused
from assay_shared.types import (
    DirectWeights,
    PolicyVersion,
    SamplingParams,
    WeightDigest,
    WeightReceiver,
)

_log = logging.getLogger(__name__)
_POLL_S = 0.25
#: The workers keep to the limit themselves; a child that has not answered by then is ended.
_TRANSFER_GRACE_S = 5.0
_WARM_UP = SamplingParams(max_tokens=2, top_p=0.9, seed=0)


@dataclass
class Sync:
    """What came of putting weights into an engine."""

    probe_difference: float | None = None
    coverage: Coverage | None = None
    phases_s: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - started
            self.phases_s[name] = self.phases_s.get(name, 0.0) + took


class VllmReplica:
    """A child process and the connections to it."""

    def __init__(self, settings: InferenceSettings, checkpoint: Checkpoint) -> None:
        """Starts the child; `wait_ready` comes next."""
        self._settings = settings
        self.checkpoint = checkpoint
        self.process = VllmProcess(settings, checkpoint)
        self.api = VllmApi(self.process.socket)
        self.receiver: WeightReceiver | None = None
        self._samples: list[dict[str, list[Any]]] = []

    async def wait_ready(self, sync: Sync) -> None:
        """Return once it serves its checkpoint and has proven it.

        Raises:
            Unreachable: it ended.
            TimedOut: it does not answer in time.
            WeightsRefused: it holds something else.
        """
        with sync.phase("start"):
            timeout_s = self._settings.inference_start_timeout_s
            try:
                async with asyncio.timeout(timeout_s):
                    await self._answers()
            except TimeoutError as error:
                raise TimedOut(f"vLLM did not start within {timeout_s:g} s") from error
            limit_s = self._settings.inference_load_timeout_s
            workers = await self.api.rpc("assay_prepare", limit_s)
            devices = tuple(str(worker["device"]) for worker in workers)
            self.receiver = WeightReceiver(devices=devices, dtype=str(workers[0]["dtype"]))
            # The first draw compiles what the others use, and may take long for it.
            await self.api.generate([0], _WARM_UP, frozenset(), limit_s)
            length = await self.api.max_length(limit_s)
            self.checkpoint = self.checkpoint.within(length)
        await self._attest(sync)

    async def _answers(self) -> None:
        while True:
            if not self.process.is_running():
                raise Unreachable(f"vLLM ended: {self.process.last_words()}")
            try:
                return await self.api.check_health(self._settings.inference_health_timeout_s)
            except Unreachable:
                await asyncio.sleep(_POLL_S)

    async def replace(self, checkpoint: Checkpoint, sync: Sync) -> None:
        """Put other weights of the same model into it. Nothing may be drawn meanwhile.

        Raises:
            WeightsRefused: it cannot load them or does not hold them; what it holds is unknown.
            Unreachable, TimedOut: it is gone or hangs.
        """
        limit_s = self._settings.inference_load_timeout_s
        await self.api.pause(limit_s)
        if checkpoint.direct is None:
            folder = str(checkpoint.folder.resolve())
            with sync.phase("load"):
                await self._load("reload_weights", folder, limit_s, weights_path=folder)
        else:
            await self._receive(checkpoint.direct, checkpoint.policy, sync)
        with sync.phase("load"):
            await self.api.rpc("assay_repack", limit_s)
            await self.api.reset_prefix_cache(limit_s)
            await self.api.resume(limit_s)
        self.checkpoint = checkpoint.within(self.checkpoint.vocabulary.max_length)
        await self._attest(sync)

    async def _load(
        self, method: str, what: str, timeout_s: float, **arguments: object
    ) -> list[dict[str, Any]]:
        try:
            return await self.api.rpc(method, timeout_s, **arguments)
        except Unreachable as error:
            if await self.is_alive():
                raise WeightsRefused(f"vLLM cannot load {what}: {error}") from error
            raise

    async def _receive(self, source: DirectWeights, policy: PolicyVersion, sync: Sync) -> None:
        """Have the workers fetch the weights from the trainer.

        Raises:
            WeightsRefused: they did not arrive.
            Unreachable: they did not, and only the end of the child stops what goes on.
        """
        assert self.receiver is not None
        limit_s = self._settings.inference_transfer_timeout_s
        started = time.perf_counter()
        answers = await self._load(
            "assay_receive",
            "what the trainer sent",
            limit_s + _TRANSFER_GRACE_S,
            source=direct.call(source, len(self.receiver.devices)),
            version=policy.version,
            seed=policy.digest,
            limit_s=limit_s,
        )
        direct.check_arrival(answers)
        took_s = time.perf_counter() - started
        load_s = max(float(answer["load_s"]) for answer in answers)
        sync.phases_s["transfer"] = took_s - load_s
        sync.phases_s["load"] = load_s
        self._samples = [answer["samples"] for answer in answers]

    async def _attest(self, sync: Sync) -> None:
        checkpoint, limit_s = self.checkpoint, self._settings.inference_load_timeout_s
        with sync.phase("attest"):
            if checkpoint.direct is None:
                sync.coverage = await self._compare_with_files(sorted(checkpoint.layout))
            else:
                sync.coverage = await self._compare_with_manifest(checkpoint.direct)
            sync.probe_difference = None
            if checkpoint.probe is not None:
                found = await self.api.prompt_logprobs(checkpoint.probe.token_ids, limit_s)
                sync.probe_difference = compare_probe(checkpoint.probe, found)

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
        """Of each worker: `fingerprints` by tensor, and the names of those to be `sampled`."""
        limit_s = self._settings.inference_load_timeout_s
        return await self.api.rpc(
            "assay_fingerprints", limit_s, names=sorted(self.checkpoint.layout)
        )

    async def digest(self) -> WeightDigest:
        """Compare all that it holds with what it should."""
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

    async def is_alive(self) -> bool:
        """Whether the engine's loop turns: an answer from the server alone proves nothing."""
        if not self.process.is_running():
            return False
        try:
            await self.api.rpc("assay_alive", self._settings.inference_health_timeout_s)
        except (Unreachable, TimedOut) as error:
            _log.warning("the engine does not answer: %s", error)
            return False
        return True

    async def kill(self) -> None:
        """End it at once; what it has in hand fails."""
        self.process.kill()
        await self.api.close()

    async def end(self, grace_s: float) -> None:
        await asyncio.to_thread(self.process.end, grace_s)
        await self.api.close()
