"""Limits, ledger, cache and metrics of models, shared by replicas or kept in one process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from assay_shared.providers.state.cache import Cache, NoCache, ProcessCache, RedisCache
from assay_shared.providers.state.ledger import Ledger, ProcessLedger, RedisLedger
from assay_shared.providers.state.limits import Limiter
from assay_shared.providers.state.limits_process import ProcessLimits
from assay_shared.providers.state.limits_redis import RedisLimits
from assay_shared.providers.state.metrics import ProviderMetrics


@dataclass(frozen=True)
class SharedState:
    """The limiter, ledger, cache and metrics of the models that one service asks.

    `user` names this service in errors and spans.
    """

    limiter: Limiter
    ledger: Ledger
    cache: Cache
    metrics: ProviderMetrics
    user: str

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


def make_shared_state(
    user: str,
    redis_url: str | None,
    registry: CollectorRegistry,
    *,
    has_cache: bool = True,
    ledger: Ledger | None = None,
) -> SharedState:
    """Return the state in Redis, or in this process if `redis_url` is None.

    `user` is the service that asks: part of the names of metrics (`assay_USER_requests_total`)
    and of the keys in Redis. `ledger` replaces the usual ledger.
    """
    metrics = ProviderMetrics(registry, user)
    cache: Cache = NoCache()
    if redis_url is None:
        cache = ProcessCache(registry, user) if has_cache else cache
        return SharedState(ProcessLimits(), ledger or ProcessLedger(), cache, metrics, user)
    cache = RedisCache(redis_url, registry, user) if has_cache else cache
    ledger = ledger or RedisLedger(redis_url, user)
    return SharedState(RedisLimits(redis_url, user), ledger, cache, metrics, user)
