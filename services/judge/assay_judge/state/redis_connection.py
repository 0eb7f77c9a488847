"""The connection to the Redis that replicas of the judge share: capped, timed, with errors of ours.

Nothing is retried here: who calls knows what doing it twice would mean.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from assay_shared.errors import TimedOut, Unreachable

#: Of all keys and channels; the Redis may serve others too.
PREFIX = "assay:judge:"
_MAX_CONNECTIONS = 32


def connect(redis_url: str, timeout_s: float) -> Redis:
    """A client of `redis_url` (redis://, rediss:// or unix://), which connects when it is used.

    `timeout_s` is the limit of connecting, of each answer, and of waiting for a free connection.
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
    """Around every command.

    Raises:
        TimedOut: Redis did not answer in time. Whether it did what was asked is not known.
        Unreachable: there is no connection, or Redis refuses (it loads, or has no memory left).
    """
    try:
        yield
    except redis.TimeoutError as error:
        raise TimedOut("no answer from Redis in time", service="redis") from error
    except redis.RedisError as error:
        raise Unreachable(f"no Redis: {error}", service="redis") from error
