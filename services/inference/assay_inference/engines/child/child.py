"""A server process with a checkpoint, from start to end, with proof of its weights."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from assay_inference.engines.child.http import ServerApi
from assay_inference.engines.child.process import ServerProcess
from assay_inference.engines.engine import ResolvedUpdate
from assay_inference.settings import InferenceSettings
from assay_inference.weights.attest import Arithmetic, Coverage, compare_probe
from assay_inference.weights.checkpoint import Checkpoint
from assay_shared.errors import NotReady, TimedOut, Unreachable
from assay_shared.types import SamplingParams, WeightDigest, WeightReceiver

_log = logging.getLogger(__name__)
_POLL_S = 0.25
_RETRY_AFTER_S = 5.0


@dataclass
class Sync:
    """Results of putting weights into an engine."""

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


class EngineChild(ABC):
    """A child process and the connections to it. Each engine adds its server's own routes."""

    #: As messages call the engine.
    name: ClassVar[str]
    #: Prefix of its metrics.
    metrics_prefix: ClassVar[str]
    #: Name of its metric of KV cache use.
    cache_use_metric: ClassVar[str]

    def __init__(self, settings: InferenceSettings, checkpoint: Checkpoint) -> None:
        """Start the child; call `wait_ready` next."""
        self._settings = settings
        self.checkpoint = checkpoint
        #: What a direct transfer has to reach, once it is ready; None where only folders are taken.
        self.receiver: WeightReceiver | None = None

    @property
    @abstractmethod
    def process(self) -> ServerProcess: ...

    @property
    @abstractmethod
    def api(self) -> ServerApi: ...

    @property
    @abstractmethod
    def arithmetic(self) -> Arithmetic:
        """Known once it is ready."""

    @classmethod
    @abstractmethod
    def check_sampling(cls, sampling: SamplingParams, settings: InferenceSettings) -> None:
        """Check sampling parameters for values the engine would silently change.

        Raises:
            InvalidInput: the engine would sample differently from the request.
        """

    @classmethod
    @abstractmethod
    def check_update(cls, update: ResolvedUpdate) -> None:
        """Check the source and the mode of an update.

        Raises:
            InvalidInput: the engine does not take weights in this way.
        """

    @abstractmethod
    async def _prepare(self, limit_s: float) -> int:
        """Prepare a server just started; return its longest context."""

    @abstractmethod
    async def _load(self, checkpoint: Checkpoint, sync: Sync) -> None:
        """Put weights into the engine, and forget all results of the old weights.

        Raises:
            WeightsRefused: it cannot load them; its weights are unknown then.
        """

    @abstractmethod
    async def _compare(self) -> Coverage:
        """Compare the engine's weights with `checkpoint`.

        Raises:
            WeightsRefused: they differ.
        """

    @abstractmethod
    async def digest(self) -> WeightDigest:
        """Compare all of the engine's weights with the checkpoint or the manifest."""

    @abstractmethod
    async def _ping(self, timeout_s: float) -> None:
        """Have the engine's loop turn: an answer from the server alone proves nothing."""

    async def wait_ready(self, sync: Sync) -> None:
        """Return once the child serves its checkpoint and the weights are proven.

        Raises:
            Unreachable: the child ended.
            TimedOut: the child does not answer in time.
            WeightsRefused: the child has other weights.
        """
        with sync.phase("start"):
            timeout_s = self._settings.inference_start_timeout_s
            try:
                async with asyncio.timeout(timeout_s):
                    await self._answers()
            except TimeoutError as error:
                raise TimedOut(f"{self.name} did not start within {timeout_s:g} s") from error
            length = await self._prepare(self._settings.inference_load_timeout_s)
            self.checkpoint = self.checkpoint.within(length)
        await self._attest(sync)

    async def _answers(self) -> None:
        while True:
            if not self.process.is_running():
                raise Unreachable(f"{self.name} ended: {self.process.last_words()}")
            try:
                return await self.api.check_health(self._settings.inference_health_timeout_s)
            except Unreachable:
                await asyncio.sleep(_POLL_S)

    async def replace(self, checkpoint: Checkpoint, sync: Sync) -> None:
        """Put other weights of the same model into the engine. Nothing may be sampled meanwhile.

        Raises:
            WeightsRefused: it cannot load them or does not hold them; its weights are unknown then.
            Unreachable, TimedOut: it is gone or hangs.
        """
        await self._load(checkpoint, sync)
        self.checkpoint = checkpoint.within(self.checkpoint.vocabulary.max_length)
        await self._attest(sync)

    async def _attest(self, sync: Sync) -> None:
        probe, limit_s = self.checkpoint.probe, self._settings.inference_load_timeout_s
        with sync.phase("attest"):
            sync.coverage = await self._compare()
            sync.probe_difference = None
            if probe is not None:
                found = await self.api.prompt_logprobs(probe.token_ids, limit_s)
                sync.probe_difference = compare_probe(probe, found, self.arithmetic)

    async def is_alive(self) -> bool:
        """Return True if the engine's loop turns."""
        if not self.process.is_running():
            return False
        try:
            await self._ping(self._settings.inference_health_timeout_s)
        except (Unreachable, TimedOut) as error:
            _log.warning("the engine does not answer: %s", error)
            return False
        return True

    async def kill(self) -> None:
        """End the process at once; requests in flight fail."""
        self.process.kill()
        await self.api.close()

    async def end(self, grace_s: float) -> None:
        await asyncio.to_thread(self.process.end, grace_s)
        await self.api.close()


def lost(error: Unreachable) -> NotReady:
    """Return the error for a request whose engine ended."""
    return NotReady(
        f"the engine was lost on the way: {error.message}", retry_after_s=_RETRY_AFTER_S
    )
