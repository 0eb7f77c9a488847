"""Metrics of the queue and the disk, as seen by the trainer's service."""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import redis.asyncio
from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from assay_shared.runs.dead_letters import COUNTS, counts_of
from assay_shared.runs.queue import ROLLOUT_QUEUE, UNACKED_KEY
from assay_trainer.service.runs import Runs

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
_TIMEOUT_S = 2.0
_STATES = ("queued", "running", "stopped", "failed", "finished", "unreadable")


class MeshMetrics:
    """Looks every few seconds: a scrape waits for nobody."""

    def __init__(
        self, redis_url: str, runs: Runs, folder: Path, registry: CollectorRegistry
    ) -> None:
        self._redis_url = redis_url
        self._runs = runs
        self._was_up = True
        self._is_up = Gauge("assay_queue_up", "1 where Redis answers.", registry=registry)
        self._waiting = Gauge(
            "assay_queue_waiting", "Groups that no worker has taken.", registry=registry
        )
        self._taken = Gauge("assay_queue_taken", "Groups in flight at workers.", registry=registry)
        self._letters: dict[str, int] = {}
        registry.register(_DeadLetters(self._letters))
        self._states = Gauge(
            "assay_trainer_runs",
            "Runs that this service has started.",
            ["state"],
            registry=registry,
        )
        self._free = Gauge(
            "assay_trainer_runs_free_bytes", "Room on the disk of the runs.", registry=registry
        )
        self._free.set_function(lambda: free_bytes(folder))

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Poll the queue while the block lasts."""
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    async def _watch(self) -> None:
        async with redis.asyncio.Redis.from_url(
            self._redis_url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S
        ) as client:
            while True:
                await self._look_at_queue(client)
                counts = await asyncio.to_thread(self._count_states)
                for state in _STATES:
                    self._states.labels(state).set(counts.count(state))
                await asyncio.sleep(LOOK_EVERY_S)

    async def _look_at_queue(self, client: redis.asyncio.Redis) -> None:
        try:
            waiting = await client.llen(ROLLOUT_QUEUE)
            taken = await client.hlen(UNACKED_KEY)
            letters = await client.hgetall(COUNTS)
        except (RedisError, OSError) as error:
            if self._was_up:
                _log.warning("the queue cannot be seen: %s", error)
            self._was_up = False
            self._is_up.set(0)
            return
        self._was_up = True
        self._is_up.set(1)
        self._waiting.set(waiting)
        self._taken.set(taken)
        self._letters.clear()
        self._letters |= counts_of(letters)

    def _count_states(self) -> list[str]:
        return [run.status.state for run in self._runs.started()]


class _DeadLetters(Collector):
    """The workers' counts in Redis, as of the last read."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "assay_queue_dead_letters", "Messages that no worker can use.", labels=["reason"]
        )
        for reason, number in tuple(self._counts.items()):
            family.add_metric([reason], number)
        yield family

    def describe(self) -> Iterable[Metric]:
        return ()


def free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of `folder`, existing or not."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free
