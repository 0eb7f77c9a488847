"""The interface of a replica to the router."""

from collections.abc import Iterable
from typing import Protocol

from prometheus_client import Metric

from assay_inference.engines.engine import Engine, Loaded, OnText, ResolvedUpdate
from assay_shared.errors import NotReady
from assay_shared.types import (
    Completion,
    PolicyVersion,
    PromptLogprobs,
    SamplingParams,
    WeightReceiver,
)


class Replica(Protocol):
    """Behind an address, or a child of this service."""

    @property
    def receiver(self) -> WeightReceiver | None:
        """The workers that a direct transfer has to reach; None if it takes only folders."""
        ...

    async def open(self) -> None: ...

    async def check(self) -> None:
        """Return if it lives.

        Raises:
            Unreachable, TimedOut: it does not.
        """
        ...

    async def served(self) -> PolicyVersion | None:
        """Return the version served now; None before the first.

        Raises:
            NotReady: it has a version and cannot serve it now.
        """
        ...

    async def load(self, update: ResolvedUpdate) -> Loaded:
        """Load weights as `Engine.load`.

        Raises:
            Conflict: it serves a later version.
        """
        ...

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None
    ) -> list[Completion]:
        """Do as `Engine.generate`; also raises Overloaded, TimedOut or Unreachable."""
        ...

    async def prompt_logprobs(self, token_ids: list[int], num_top: int) -> PromptLogprobs:
        """Do as `Engine.prompt_logprobs`; also raises Overloaded, TimedOut or Unreachable."""
        ...

    def cache_use(self) -> float | None:
        """Return the used share of its key-value cache, if known here."""
        ...

    def own_metrics(self) -> Iterable[Metric]:
        """Yield its engine's metrics, unless they are scraped at its own address."""
        ...

    async def close(self) -> None: ...


class LocalReplica:
    """An engine of this very service. It looks after its own process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._policy: PolicyVersion | None = None

    @property
    def receiver(self) -> WeightReceiver | None:
        return self._engine.receiver

    async def open(self) -> None:
        return None

    async def check(self) -> None:
        return None

    async def served(self) -> PolicyVersion | None:
        if not self._engine.holds_weights:
            return None
        reason = self._engine.not_ready_because()
        if reason is not None:
            raise NotReady(reason)
        return self._policy

    async def load(self, update: ResolvedUpdate) -> Loaded:
        loaded = await self._engine.load(update)
        self._policy = update.policy
        return loaded

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None
    ) -> list[Completion]:
        return await self._engine.generate(prompt_token_ids, sampling, on_text)

    async def prompt_logprobs(self, token_ids: list[int], num_top: int) -> PromptLogprobs:
        return await self._engine.prompt_logprobs(token_ids, num_top)

    def cache_use(self) -> float | None:
        return self._engine.traffic().cache_use

    def own_metrics(self) -> Iterable[Metric]:
        return self._engine.own_metrics()

    async def close(self) -> None:
        await self._engine.close()
