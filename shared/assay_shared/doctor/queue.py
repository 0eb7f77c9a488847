"""Checks of Redis and of the rollout workers behind it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay_shared.doctor.findings import CheckResult, CheckStatus, ServiceLimits
from assay_shared.runs.dead_letters import read_counts, read_letters
from assay_shared.runs.queue import ROLLOUT_QUEUE, UNACKED_KEY, make_celery
from assay_shared.settings.environment import ServiceSettings

if TYPE_CHECKING:
    import redis


@dataclass(frozen=True)
class QueueDepth:
    """Groups of the rollout queue: those that no worker has taken, and those at workers."""

    waiting: int
    taken: int


def read_depth(settings: ServiceSettings, timeout_s: float) -> QueueDepth | None:
    """Return the depth of the rollout queue; None if Redis does not answer."""
    try:
        import redis
    except ModuleNotFoundError:
        return None
    try:
        with redis.Redis.from_url(
            settings.redis_url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s
        ) as client:
            return _depth(client)
    except (redis.RedisError, OSError, ValueError):
        return None


def _depth(client: redis.Redis) -> QueueDepth:
    return QueueDepth(int(client.llen(ROLLOUT_QUEUE)), int(client.hlen(UNACKED_KEY)))


def examine_queue(settings: ServiceSettings, limits: ServiceLimits) -> list[CheckResult]:
    """Return the findings on Redis and the workers; an unreachable Redis is a single finding."""
    try:
        import redis
    except ModuleNotFoundError:
        found = "redis is not installed here, so the queue was not checked"
        advice = "run this where workers run, or pip install 'assay-rl[worker]'"
        return [CheckResult(CheckStatus.UNKNOWN, "queue", found, advice)]
    try:
        with redis.Redis.from_url(
            settings.redis_url,
            socket_timeout=limits.timeout_s,
            socket_connect_timeout=limits.timeout_s,
        ) as client:
            return [*_look(client, settings, limits)]
    except redis.AuthenticationError as error:
        advice = "set the password in ASSAY_REDIS_URL: redis://:PASSWORD@host:6379/0"
        return [CheckResult(CheckStatus.FAIL, "queue", f"Redis refuses: {error}", advice)]
    except (redis.RedisError, OSError, ValueError) as error:
        advice = "start Redis (assay up), or set ASSAY_REDIS_URL to where it is"
        return [CheckResult(CheckStatus.FAIL, "queue", f"Redis does not answer: {error}", advice)]


def _look(
    client: redis.Redis, settings: ServiceSettings, limits: ServiceLimits
) -> Iterator[CheckResult]:
    info: dict[str, Any] = client.info()
    yield CheckResult(CheckStatus.OK, "queue", f"Redis {info['redis_version']} answers")
    yield _durability(info)
    yield _clock(client, limits)
    depth = _depth(client)
    yield _dead_letters(client)
    yield _workers(settings, limits, depth)


def _durability(info: dict[str, Any]) -> CheckResult:
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if int(info.get("maxmemory", 0)) and policy != "noeviction":
        return CheckResult(
            CheckStatus.FAIL,
            "queue memory",
            f"Redis throws away what it holds when it is full ({policy})",
            "set maxmemory-policy noeviction: groups and results must not vanish",
        )
    if not int(info.get("aof_enabled", 0)):
        return CheckResult(
            CheckStatus.WARN,
            "queue memory",
            "Redis forgets the last seconds or all of its data when it ends",
            "set appendonly yes",
        )
    return CheckResult(CheckStatus.OK, "queue memory", "everything is kept, and survives a restart")


def _clock(client: redis.Redis, limits: ServiceLimits) -> CheckResult:
    asked_at = time.time()
    seconds, micros = client.time()
    skew = seconds + micros / 1e6 - (asked_at + time.time()) / 2
    if abs(skew) <= limits.max_skew_s:
        return CheckResult(CheckStatus.OK, "queue clock", f"{abs(skew):.1f} s from this machine's")
    advice = "run a time service (chrony, systemd-timesyncd) there"
    return CheckResult(CheckStatus.FAIL, "queue clock", f"Redis is {skew:+.0f} s off", advice)


def _dead_letters(client: redis.Redis) -> CheckResult:
    letters = read_letters(client, 1)
    if not letters:
        return CheckResult(CheckStatus.OK, "dead letters", "none")
    counts = ", ".join(f"{reason}: {number}" for reason, number in read_counts(client).items())
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(letters[0].time))
    return CheckResult(
        CheckStatus.WARN,
        "dead letters",
        f"messages that no worker can use ({counts}); the last, {when}: {letters[0].detail}",
        "find out who writes to this Redis: assay trainer dead-letters shows them",
    )


def _workers(settings: ServiceSettings, limits: ServiceLimits, depth: QueueDepth) -> CheckResult:
    queue = f"{depth.waiting} groups wait, {depth.taken} are in flight"
    try:
        celery = make_celery(settings.redis_url)
    except ModuleNotFoundError:
        return CheckResult(CheckStatus.UNKNOWN, "workers", f"{queue}; celery is not installed here")
    with celery:
        answers = celery.control.inspect(timeout=min(limits.timeout_s, 2.0)).ping() or {}
    if answers:
        return CheckResult(CheckStatus.OK, "workers", f"{len(answers)} answer; {queue}")
    return CheckResult(
        CheckStatus.FAIL,
        "workers",
        f"none answers; {queue}",
        "start some (assay worker) with the same ASSAY_REDIS_URL",
    )
