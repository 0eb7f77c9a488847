"""Dead letters: unusable queue messages, kept in Redis with the reason for people to read.

assay:dead_letters          the newest letters as JSON, the newest first
assay:dead_letters:counts   number of letters by reason
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
    """A message. `content` is its beginning; bytes outside UTF-8 are escaped."""

    #: Seconds since 1970.
    time: float
    queue: str
    #: A word; letters are counted by reason.
    reason: str
    #: Explanation for people.
    detail: str
    num_bytes: int
    content: str


def bury(client: "redis.Redis", queue: str, reason: str, detail: str, content: bytes) -> None:
    """Keep a message and count it; if Redis does not answer, log this and drop the letter."""
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
    """Return the `number` newest letters, the newest first."""
    letters = []
    for line in client.lrange(LETTERS, 0, number - 1):
        try:
            letters.append(DeadLetter.model_validate_json(line))
        except ValidationError:
            continue  # some other program wrote it
    return letters


def read_counts(client: "redis.Redis") -> dict[str, int]:
    """Return the number of letters by reason, including letters no longer kept."""
    return counts_of(client.hgetall(COUNTS))


def counts_of(found: Mapping[bytes | str, bytes | str]) -> dict[str, int]:
    """Return Redis's answer as texts and numbers."""
    return {
        name.decode() if isinstance(name, bytes) else name: int(number)
        for name, number in found.items()
    }


def clear(client: "redis.Redis") -> int:
    """Delete all letters and counts; return the number of letters deleted."""
    number = int(client.llen(LETTERS))
    client.delete(LETTERS, COUNTS)
    return number
