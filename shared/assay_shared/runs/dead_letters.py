"""Messages that nobody can work on: kept in Redis with the reason, where people can look at them.

assay:dead_letters          the newest letters as JSON, the newest first
assay:dead_letters:counts   how many there were, by reason
"""

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    import redis

_log = logging.getLogger(__name__)

LETTERS = "assay:dead_letters"
COUNTS = "assay:dead_letters:counts"
_MAX_LETTERS = 1000
_MAX_CHARACTERS = 2000


class DeadLetter(BaseModel):
    """One message. `content` is its beginning; bytes that are not UTF-8 are escaped."""

    #: Seconds since 1970.
    time: float
    queue: str
    #: A word that is counted by.
    reason: str
    #: For people.
    detail: str
    num_bytes: int
    content: str


def bury(client: "redis.Redis", queue: str, reason: str, detail: str, content: bytes) -> None:
    """Keep a message and count it; a Redis that does not answer costs the letter alone."""
    import redis

    letter = DeadLetter(
        time=time.time(),
        queue=queue,
        reason=reason,
        detail=detail.encode(errors="backslashreplace").decode()[:_MAX_CHARACTERS],
        num_bytes=len(content),
        content=content[:_MAX_CHARACTERS].decode(errors="backslashreplace"),
    )
    _log.error("a message of queue %s cannot be used: %s: %s", queue, reason, letter.detail)
    try:
        with client.pipeline() as pipe:
            pipe.lpush(LETTERS, letter.model_dump_json())
            pipe.ltrim(LETTERS, 0, _MAX_LETTERS - 1)
            pipe.hincrby(COUNTS, reason, 1)
            pipe.execute()
    except redis.RedisError as error:
        _log.error("the message could not be kept: %s", error)


def read_letters(client: "redis.Redis", number: int) -> list[DeadLetter]:
    """The newest letters, the newest first."""
    letters = []
    for line in client.lrange(LETTERS, 0, number - 1):
        try:
            letters.append(DeadLetter.model_validate_json(line))
        except ValidationError:
            continue  # not one of ours
    return letters


def read_counts(client: "redis.Redis") -> dict[str, int]:
    """How many letters there were, by reason; also those that are no longer kept."""
    return counts_of(client.hgetall(COUNTS))


def counts_of(found: Mapping[bytes | str, bytes | str]) -> dict[str, int]:
    """Redis's answer as texts and numbers."""
    return {
        name.decode() if isinstance(name, bytes) else name: int(number)
        for name, number in found.items()
    }


def clear(client: "redis.Redis") -> int:
    """Forget all letters and counts; returns how many letters were kept."""
    number = int(client.llen(LETTERS))
    client.delete(LETTERS, COUNTS)
    return number
