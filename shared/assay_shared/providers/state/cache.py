"""Caches of earlier replies, by a hash of everything a reply depends on.

A cache is a convenience. If it cannot be reached, the look-up is a miss, counted and logged at
most once a minute, and never an error of the question.
"""

import hashlib
import json
import logging
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter
from pydantic import JsonValue

from assay_shared.errors import InfrastructureError
from assay_shared.providers.state.redis_connection import connect, prefix_of, reaching

_TTL_S = 7 * 24 * 3600
_MAX_VALUE_BYTES = 64 * 2**10
_MAX_BYTES = 64 * 2**20
_LOG_EVERY_S = 60.0
#: A cache that did not answer is not asked again for this time: each wait delays a question.
_REST_S = 1.0

_log = logging.getLogger(__name__)


class Cache(Protocol):
    """A store of text by key. An entry may be forgotten at any time."""

    async def get(self, key: str) -> str | None: ...

    async def put(self, key: str, value: str) -> None: ...

    async def close(self) -> None: ...


class CacheMetrics:
    """Prometheus counters of look-ups and of stored values, by outcome."""

    def __init__(self, registry: CollectorRegistry, user: str) -> None:
        self.lookups = Counter(
            f"assay_{user}_cache_lookups_total",
            "Look-ups, by outcome: hit, miss, or unreachable (handled as a miss).",
            ["outcome"],
            registry=registry,
        )
        self.stores = Counter(
            f"assay_{user}_cache_stores_total",
            "Values, by outcome: stored, or not stored because too_large or unreachable.",
            ["outcome"],
            registry=registry,
        )
        self.hit, self.miss = self.lookups.labels("hit"), self.lookups.labels("miss")
        self.stored = self.stores.labels("stored")


def cache_key(
    *,
    model: str,
    revision: str | None,
    template: str,
    sampling: Mapping[str, JsonValue],
    inputs: Mapping[str, JsonValue],
) -> str:
    """Return the SHA-256, in hex, of everything a reply depends on.

    `template` is the template's hash. Before hashing, each text in `inputs` is normalised to
    Unicode's NFC and loses the white space at its end. Any other difference gives another key.
    """
    parts = {
        "model": model,
        "revision": revision,
        "template": template,
        "sampling": dict(sampling),
        "inputs": _normalise(dict(inputs)),
    }
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _normalise(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return (value if value.isascii() else unicodedata.normalize("NFC", value)).rstrip()
    if isinstance(value, list | tuple):
        return [_normalise(one) for one in value]
    if isinstance(value, dict):
        return {name: _normalise(one) for name, one in value.items()}
    return value


class NoCache:
    """A cache that stores nothing, for measurements: each request reaches the model."""

    async def close(self) -> None: ...

    async def get(self, key: str) -> str | None:
        return None

    async def put(self, key: str, value: str) -> None: ...


class ProcessCache:
    """Implements `Cache` in memory, up to `max_bytes`; the least recently used entry goes first."""

    def __init__(
        self, registry: CollectorRegistry, user: str, *, max_bytes: int = _MAX_BYTES
    ) -> None:
        self._metrics = CacheMetrics(registry, user)
        self._max_bytes = max_bytes
        self._values: OrderedDict[str, str] = OrderedDict()
        self.num_bytes = 0

    async def close(self) -> None: ...

    async def get(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        (self._metrics.miss if value is None else self._metrics.hit).inc()
        return value

    async def put(self, key: str, value: str) -> None:
        size = _num_bytes(key, value)
        if size > self._max_bytes:
            self._metrics.stores.labels("too_large").inc()
            return
        self._forget(key)
        while self.num_bytes + size > self._max_bytes:
            self._forget(next(iter(self._values)))
        self._values[key] = value
        self.num_bytes += size
        self._metrics.stored.inc()

    def _forget(self, key: str) -> None:
        value = self._values.pop(key, None)
        if value is not None:
            self.num_bytes -= _num_bytes(key, value)


def _num_bytes(key: str, value: str) -> int:
    return len(key) + len(value.encode())


class RedisCache:
    """Implements `Cache` for all replicas on one Redis. A value is forgotten after `ttl_s`."""

    def __init__(
        self,
        redis_url: str,
        registry: CollectorRegistry,
        user: str,
        *,
        ttl_s: int = _TTL_S,
        max_value_bytes: int = _MAX_VALUE_BYTES,
        timeout_s: float = 0.5,
    ) -> None:
        self._redis = connect(redis_url, timeout_s)
        self._prefix = prefix_of(user) + "cache:"
        self._metrics = CacheMetrics(registry, user)
        self._ttl_s = ttl_s
        self._max_value_bytes = max_value_bytes
        self._rests_until = 0.0
        self._silent_until = 0.0

    async def close(self) -> None:
        await self._redis.aclose()

    async def get(self, key: str) -> str | None:
        if time.monotonic() < self._rests_until:
            self._metrics.lookups.labels("unreachable").inc()
            return None
        try:
            with reaching():
                value = await self._redis.get(self._prefix + key)
        except InfrastructureError as error:
            self._metrics.lookups.labels("unreachable").inc()
            self._rest(error)
            return None
        (self._metrics.miss if value is None else self._metrics.hit).inc()
        return None if value is None else str(value)

    async def put(self, key: str, value: str) -> None:
        if len(value.encode()) > self._max_value_bytes:
            self._metrics.stores.labels("too_large").inc()
            return
        if time.monotonic() < self._rests_until:
            self._metrics.stores.labels("unreachable").inc()
            return
        try:
            with reaching():
                await self._redis.set(self._prefix + key, value, ex=self._ttl_s)
        except InfrastructureError as error:
            self._metrics.stores.labels("unreachable").inc()
            self._rest(error)
            return
        self._metrics.stored.inc()

    def _rest(self, error: InfrastructureError) -> None:
        now = time.monotonic()
        self._rests_until = now + _REST_S
        if now >= self._silent_until:
            self._silent_until = now + _LOG_EVERY_S
            _log.warning("working without the cache: %s", error)
