"""The connection to the Redis of a service's replicas: pooled, with timeouts and Assay errors.

Nothing is retried here: only the caller knows if a command may run twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from assay_shared.errors import TimedOut, Unreachable

_MAX_CONNECTIONS = 32


def prefix_of(user: str) -> str:
    """Return the prefix of all keys and channels of a service: others may use the same Redis."""
    return f"assay:{user}:"


def connect(redis_url: str, timeout_s: float) -> Redis:
    """Return a client of `redis_url` (redis://, rediss:// or unix://). It connects on first use.

    `timeout_s` limits connecting, each answer, and waiting for a free connection.
    """
    pool = BlockingConnectionPool.from_url(
        redis_url,
        max_connections=_MAX_CONNECTIONS,
        timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        socket_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    )
    return Redis.from_pool(pool)


@contextmanager
def reaching() -> Iterator[None]:
    """Turn Redis errors in the block into Assay errors; use it around every command.

    Raises:
        TimedOut: Redis did not answer in time. It may or may not have run the command.
        Unreachable: there is no connection, or Redis refuses (it is loading, or out of memory).
    """
    try:
        yield
    except redis.TimeoutError as error:
        raise TimedOut("no answer from Redis in time", service="redis") from error
    except redis.RedisError as error:
        raise Unreachable(f"no Redis: {error}", service="redis") from error
