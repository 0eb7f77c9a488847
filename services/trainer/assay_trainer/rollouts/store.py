"""Scored groups in Redis: stored once per key, and leased to a single worker in play.

assay:group:<key>   the ScoredGroup, as JSON; the first to be stored stays; empty once it is used
assay:lease:<key>   the worker at work on it; expires soon after the worker's end
"""

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import redis
from pydantic import ValidationError
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from assay_shared.errors import Overloaded, Unreachable
from assay_shared.runs import dead_letters
from assay_shared.runs.queue import ROLLOUT_QUEUE
from assay_shared.types import ScoredGroup

LEASE_S = 10.0
#: Kept long enough to resume a run over a weekend.
RESULT_S = 3 * 24 * 3600
#: The mark of a used group is kept until its last redelivery must have come.
CONSUMED_S = 3600
_RETRIES = 25
_MAX_WAIT_S = 1.0

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def _connect(redis_url: str, retries: int) -> redis.Redis:
    return redis.Redis.from_url(
        redis_url,
        socket_connect_timeout=5,
        socket_timeout=10,
        retry=Retry(ExponentialBackoff(cap=_MAX_WAIT_S, base=0.05), retries),
    )


class GroupStore:
    """The shared memory of trainer and workers. Safe for use from threads.

    A lost connection is retried for about 20 seconds; then each method raises Unreachable.
    """

    def __init__(self, redis_url: str) -> None:
        self._url = redis_url
        self._redis = _connect(redis_url, _RETRIES)

    def check(self) -> None:
        """Raises Unreachable at once if the server does not answer."""
        with _connect(self._url, retries=0) as client:
            self._reach(client.ping)

    def server(self) -> str:
        """Return an id of the server process: another value means a restart."""
        info = self._reach(self._redis.info, "server")
        return str(info["run_id"])

    def put_once(self, scored: ScoredGroup) -> bool:
        """Store a group unless its key has a group; return True if it was stored."""
        name = f"assay:group:{scored.group.key}"
        text = scored.model_dump_json()
        return bool(self._reach(self._redis.set, name, text, nx=True, ex=RESULT_S))

    def has(self, key: str) -> bool:
        return bool(self._reach(self._redis.exists, f"assay:group:{key}"))

    def fetch(self, keys: Sequence[str]) -> dict[str, ScoredGroup]:
        """Return the stored groups of `keys`; an unreadable group is forgotten."""
        if not keys:
            return {}
        texts = self._reach(self._redis.mget, [f"assay:group:{key}" for key in keys])
        found = {}
        for key, text in zip(keys, texts, strict=True):
            if text:  # a mark is empty
                try:
                    found[key] = ScoredGroup.model_validate_json(text)
                except ValidationError as error:
                    self._forget(key, text, error)
        return found

    def _forget(self, key: str, text: bytes | str, error: ValidationError) -> None:
        """Move an unreadable result to the dead letters: the group is played again once overdue."""
        first = error.errors(include_url=False, include_input=False)[0]
        content = text.encode() if isinstance(text, str) else text
        self.bury("results", "unreadable_result", f"{key}: {first['msg']}", content)
        self._reach(self._redis.delete, f"assay:group:{key}")

    def bury(self, queue: str, reason: str, detail: str, content: bytes) -> None:
        """Put an unusable message to the dead letters."""
        dead_letters.bury(self._redis, queue, reason, detail, content)

    def consumed(self, key: str) -> None:
        """Forget a used group; a mark stays, so that a redelivery does not play it again."""
        self._reach(self._redis.set, f"assay:group:{key}", "", xx=True, ex=CONSUMED_S)

    def lease(self, key: str, worker: str) -> bool:
        """Take the key for `worker` unless another holds it."""
        name = f"assay:lease:{key}"
        return bool(self._reach(self._redis.set, name, worker, nx=True, px=int(LEASE_S * 1000)))

    def renew(self, key: str) -> None:
        self._reach(self._redis.pexpire, f"assay:lease:{key}", int(LEASE_S * 1000))

    def release(self, key: str) -> None:
        self._reach(self._redis.delete, f"assay:lease:{key}")

    def leased(self, keys: Sequence[str]) -> set[str]:
        """Return the keys held by a living worker."""
        if not keys:
            return set()
        holders = self._reach(self._redis.mget, [f"assay:lease:{key}" for key in keys])
        return {key for key, holder in zip(keys, holders, strict=True) if holder is not None}

    def num_queued(self) -> int:
        """Return the number of groups that no worker has taken, of all runs."""
        return int(self._reach(self._redis.llen, ROLLOUT_QUEUE))

    def close(self) -> None:
        self._redis.close()

    def _reach(
        self,
        command: Callable[Parameters, Answer],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Answer:
        try:
            return command(*arguments, **options)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            hint = "start the services (assay up), or set ASSAY_REDIS_URL"
            raise Unreachable(f"no Redis: {error}", service="redis", hint=hint) from error
        except redis.OutOfMemoryError as error:
            hint = "give it more (maxmemory), or let fewer groups be in flight (grpo.max_staleness)"
            raise Overloaded(f"Redis is full: {error}", service="redis", hint=hint) from error
