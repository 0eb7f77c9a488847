"""The judge's limits, ledger, cache and metrics, shared by replicas or kept in one process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from assay_judge.settings import JudgeSettings
from assay_judge.state.cache import Cache, ProcessCache, RedisCache
from assay_judge.state.ledger import Ledger, ProcessLedger, RedisLedger
from assay_judge.state.limits import Limiter
from assay_judge.state.limits_process import ProcessLimits
from assay_judge.state.limits_redis import RedisLimits
from assay_judge.state.metrics import ProviderMetrics


@dataclass(frozen=True)
class SharedState:
    """The limiter, ledger, cache and metrics of a judge."""

    limiter: Limiter
    ledger: Ledger
    cache: Cache
    metrics: ProviderMetrics = field(default_factory=lambda: ProviderMetrics(CollectorRegistry()))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Open the limiter and the ledger for the block, then close everything.

        Raises:
            Unreachable, TimedOut: the shared Redis does not answer.
        """
        await self.limiter.open()
        await self.ledger.open()
        try:
            yield
        finally:
            await self.cache.close()
            await self.ledger.close()
            await self.limiter.close()


def make_shared_state(settings: JudgeSettings, registry: CollectorRegistry) -> SharedState:
    """Return the state chosen by the settings: in Redis, or in this process."""
    metrics = ProviderMetrics(registry)
    if settings.judge_shared == "redis":
        url = settings.redis_url
        return SharedState(RedisLimits(url), RedisLedger(url), RedisCache(url, registry), metrics)
    return SharedState(ProcessLimits(), ProcessLedger(), ProcessCache(registry), metrics)
