"""The interface and the shared rules of limits on requests to a provider, at once and per minute.

`limits_process` keeps the limits of a single process, `limits_redis` the limits shared by replicas.
Both behave the same. Callers take turns: a caller's k-th waiting request belongs to round k, and
the lowest round is next, so a caller with many requests waits behind a caller with few. No request
overtakes within this order: a big request gets its turn despite many small ones. When the queue is
full, a newcomer replaces the request of the highest round, if the newcomer's round is lower.

Requests and tokens are taken from buckets. A bucket holds a tenth of a minute's limit, and fills at
the rate of the limit minus this capacity per minute: any 60 s stay within the limit. A request for
more tokens than the bucket holds is admitted when the bucket is full, and may exceed the limit by
the difference.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from assay_shared.errors import Overloaded, TooLarge
from assay_shared.providers.config import ProviderLimits

#: Capacity of a bucket, as a share of the limit of a minute.
_BURST = 0.1
#: Longest pause: a provider that asks for a longer pause is asked again after this time.
MAX_PAUSE_S = 600.0
_RETRY_AFTER_S = 1.0


@dataclass
class Grant:
    """Permission for a single request of up to `reserved_tokens`."""

    reserved_tokens: int
    #: Tokens used: all reserved tokens until `settle` is called.
    used_tokens: int

    def settle(self, tokens_used: int) -> None:
        """Set the tokens used: on leaving, the bucket gets the rest back, or gives the excess."""
        self.used_tokens = tokens_used


class Limiter(Protocol):
    """Admission of requests within a provider's limits. A provider is identified by its name."""

    def admit(
        self, provider: str, limits: ProviderLimits, tokens: int, caller: str, deadline_s: float
    ) -> AbstractAsyncContextManager[Grant]:
        """Wait for the turn of a request of up to `tokens` (prompt and answer); hold its place
        within the block.

        Raises:
            Overloaded: there is no room within `deadline_s`, or too many requests wait already.
            TooLarge: the request has more tokens than a minute allows.
            Unreachable, TimedOut: the shared state cannot be reached. No request is admitted then:
                unlimited spending would be worse than a missing verdict.
        """
        ...

    async def pause(self, provider: str, seconds: float) -> None:
        """Admit no request to this provider for `seconds`; requests in flight are not affected."""
        ...

    async def open(self) -> None:
        """Get ready; called once before the first request."""
        ...

    async def close(self) -> None:
        """Release the resources taken by `open`."""
        ...


class TokenBucket(NamedTuple):
    """A bucket of up to `capacity`, filled at a rate of `per_s` per second."""

    capacity: float
    per_s: float


def request_bucket(limit: int, window_s: float) -> TokenBucket:
    """Return a bucket for at most `limit` requests in any window of `window_s` seconds.

    Requests are whole, so the rate is higher by one request per window: request number `limit` + 1
    is admitted exactly at the window's end.
    """
    capacity = max(1.0, limit * _BURST)
    return TokenBucket(capacity, (limit + 1 - capacity) / window_s)


def token_bucket(limit: int, window_s: float) -> TokenBucket:
    capacity = limit * _BURST
    return TokenBucket(capacity, (limit - capacity) / window_s)


def check_size(provider: str, limits: ProviderLimits, tokens: int) -> None:
    """Raise TooLarge for a request of more tokens than a whole minute allows."""
    if limits.tokens_per_minute is not None and tokens > limits.tokens_per_minute:
        raise TooLarge(
            f"{provider}: a request of up to {tokens} tokens, where a minute allows "
            f"{limits.tokens_per_minute}",
            hint="lower max_tokens, or raise tokens_per_minute",
        )


def no_room(provider: str, why: str, wait_s: float = 0.0) -> Overloaded:
    """Return the refusal; there may be room after `wait_s`, but a pause can extend it."""
    until = f", and none for {wait_s:.0f} s more" if wait_s >= _RETRY_AFTER_S else ""
    return Overloaded(f"{provider}: {why}{until}", retry_after_s=max(wait_s, _RETRY_AFTER_S))
