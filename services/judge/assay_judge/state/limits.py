"""What a provider may be asked at once and in a minute, kept by all who ask it.

`limits_process` keeps the limits of one process, `limits_redis` those that replicas share. Both do
the same. Callers take turns: each one's k-th waiting request is of round k, and the lowest round is
next, so that who asks much waits behind who asks little. Nobody overtakes: a big request gets its
turn however many small ones there are. Where the queue is full, a newcomer takes the place of the
request of the highest round, if its own is lower.

Requests and tokens come from buckets that hold a tenth of a minute's and fill steadily, more slowly
than the limit by what they hold: in any 60 s there are at most as many as the limit says. One
request of more tokens than the bucket holds goes when it is full, and may exceed the limit by the
difference.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from assay_judge.config import ProviderLimits
from assay_shared.errors import Overloaded, TooLarge

#: What a bucket holds, of what a minute allows.
_BURST = 0.1
#: An upstream that asks for a longer pause is asked again after this.
MAX_PAUSE_S = 600.0
_RETRY_AFTER_S = 1.0


@dataclass
class Grant:
    """The right to one request of `reserved_tokens`."""

    reserved_tokens: int
    #: What is known to have been used; all that was reserved until `settle` says otherwise.
    used_tokens: int

    def settle(self, tokens_used: int) -> None:
        """Say what the answer cost: at the end the difference goes back, or is taken too."""
        self.used_tokens = tokens_used


class Limiter(Protocol):
    """Lets requests through as limits allow. A provider is known by its name."""

    def admit(
        self, provider: str, limits: ProviderLimits, tokens: int, caller: str, deadline_s: float
    ) -> AbstractAsyncContextManager[Grant]:
        """Wait for the turn of one request of up to `tokens` (prompt and answer); hold its place.

        Raises:
            Overloaded: there is no room within `deadline_s`, or too many wait already.
            TooLarge: it has more tokens than a minute allows.
            Unreachable, TimedOut: what replicas share cannot be reached. Nobody is let through
                then: unlimited spending would be worse than no verdict.
        """
        ...

    async def pause(self, provider: str, seconds: float) -> None:
        """Admit nobody to this provider before then; what is held already is not touched."""
        ...

    async def open(self) -> None:
        """Get ready; called once before the first request."""
        ...

    async def close(self) -> None:
        """Let go of what `open` took."""
        ...


class TokenBucket(NamedTuple):
    """Holds up to `capacity`, and fills with `per_s`."""

    capacity: float
    per_s: float


def request_bucket(limit: int, window_s: float) -> TokenBucket:
    """Never more than `limit` whole requests in `window_s`: the next one comes with its end."""
    capacity = max(1.0, limit * _BURST)
    return TokenBucket(capacity, (limit + 1 - capacity) / window_s)


def token_bucket(limit: int, window_s: float) -> TokenBucket:
    capacity = limit * _BURST
    return TokenBucket(capacity, (limit - capacity) / window_s)


def check_size(provider: str, limits: ProviderLimits, tokens: int) -> None:
    """Raises TooLarge for a request that no minute has room for."""
    if limits.tokens_per_minute is not None and tokens > limits.tokens_per_minute:
        raise TooLarge(
            f"{provider}: a request of up to {tokens} tokens, where a minute allows "
            f"{limits.tokens_per_minute}",
            hint="lower max_tokens, or raise tokens_per_minute",
        )


def no_room(provider: str, why: str, wait_s: float = 0.0) -> Overloaded:
    """Return the refusal; `wait_s` is when there may be room, which a pause can put off."""
    until = f", and none for {wait_s:.0f} s more" if wait_s >= _RETRY_AFTER_S else ""
    return Overloaded(f"{provider}: {why}{until}", retry_after_s=max(wait_s, _RETRY_AFTER_S))
