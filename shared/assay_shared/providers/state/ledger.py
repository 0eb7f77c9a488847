"""Ledgers of requests to models, tokens and money, by run and by caller.

Money is counted in whole millionths of the currency, each charge rounded up: sums are exact, and
never lower than the money spent. The operator who writes the prices chooses the currency.
"""

from collections import Counter
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import NamedTuple, Protocol
from urllib.parse import quote

from pydantic import Field

from assay_shared.errors import BudgetExceeded
from assay_shared.providers.config import Price
from assay_shared.providers.state.redis_connection import connect, prefix_of, reaching
from assay_shared.types import Wire

_MICRO = 1_000_000
_TTL_S = 30 * 24 * 3600
_REQUESTS = "requests:"
_KNOWN_ACCOUNTS = 1024


class Usage(NamedTuple):
    """Tokens of a request, as counted by its provider, or else an estimate."""

    prompt_tokens: int
    completion_tokens: int
    is_estimated: bool = False

    @property
    def estimated_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens if self.is_estimated else 0


class Spending(Wire):
    """A sum of charges. `money` is in the currency of the prices, exact to a millionth."""

    #: Tokens of all prompts.
    prompt_tokens: int = 0
    #: Tokens of all replies.
    completion_tokens: int = 0
    #: The part of both sums that is estimated: the provider gave no plausible count.
    estimated_tokens: int = 0
    #: Money spent, in the currency of the prices.
    money: float = 0.0
    #: Requests that were sent, by provider.
    num_requests: dict[str, int] = Field(default={})


class Ledger(Protocol):
    """Sums per run, per caller, per run of a caller, and over everything.

    Each method raises Unreachable or TimedOut when the shared state cannot be reached: money must
    not be spent without being counted.
    """

    async def charge(
        self, run: str, caller: str, provider: str, usage: Usage, price: Price
    ) -> None:
        """Add a request. Do not repeat it after TimedOut: it may have been counted."""
        ...

    async def spent(self, run: str | None = None, caller: str | None = None) -> Spending:
        """Return the sum of a run, of a caller, of a caller in a run, or of everything."""
        ...

    async def check(self, run: str, caller: str, ceiling: float | None) -> None:
        """Allow another request of this caller in this run; null means no ceiling.

        Requests in flight are not counted yet: they may exceed the ceiling.

        Raises:
            BudgetExceeded: the ceiling is reached.
        """
        ...

    async def open(self) -> None:
        """Get ready; called once before the first charge."""
        ...

    async def close(self) -> None:
        """Release the resources taken by `open`."""
        ...


def micro_money(usage: Usage, price: Price) -> int:
    """Return the cost in millionths of the currency, rounded up.

    The price of a million tokens is also the price of a token in millionths.
    """
    if price.is_free:
        return 0
    cost = (
        usage.prompt_tokens * price.input_per_million
        + usage.completion_tokens * price.output_per_million
    )
    return int(cost.to_integral_value(ROUND_CEILING))


def money(usage: Usage, price: Price) -> float:
    """Return the cost in the currency of the price."""
    return micro_money(usage, price) / _MICRO


def _entry(provider: str, usage: Usage, price: Price) -> dict[str, int]:
    entry = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "micro_money": micro_money(usage, price),
        _REQUESTS + provider: 1,
    }
    if usage.is_estimated:
        entry["estimated_tokens"] = usage.estimated_tokens
    return entry


@lru_cache(maxsize=_KNOWN_ACCOUNTS)
def _account(run: str | None, caller: str | None) -> str:
    """Return the name of a sum. Names of runs and callers are quoted, otherwise two could clash."""
    names = {"run": run, "caller": caller}
    parts = [f"{kind}={quote(name, safe='')}" for kind, name in names.items() if name is not None]
    return "&".join(parts) or "all"


@lru_cache(maxsize=_KNOWN_ACCOUNTS)
def _accounts(run: str, caller: str) -> tuple[str, ...]:
    return tuple(_account(r, c) for r in (run, None) for c in (caller, None))


def _spending(sums: dict[str, int]) -> Spending:
    return Spending(
        prompt_tokens=sums.get("prompt_tokens", 0),
        completion_tokens=sums.get("completion_tokens", 0),
        estimated_tokens=sums.get("estimated_tokens", 0),
        money=sums.get("micro_money", 0) / _MICRO,
        num_requests={
            name.removeprefix(_REQUESTS): number
            for name, number in sums.items()
            if name.startswith(_REQUESTS)
        },
    )


def _check(run: str, caller: str, spending: Spending, ceiling: float) -> None:
    if spending.money >= ceiling:
        raise BudgetExceeded(
            f"run {run!r} of caller {caller!r} has spent {spending.money:.6f}, "
            f"its ceiling is {ceiling:g}",
            hint="raise the ceiling, or begin another run",
        )


class ProcessLedger:
    """Implements `Ledger` in memory: the sums end with the process."""

    def __init__(self) -> None:
        self._sums: dict[str, Counter[str]] = {}

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def charge(
        self, run: str, caller: str, provider: str, usage: Usage, price: Price
    ) -> None:
        entry = _entry(provider, usage, price)
        for account in _accounts(run, caller):
            sums = self._sums.setdefault(account, Counter())
            for name, amount in entry.items():
                sums[name] += amount

    async def spent(self, run: str | None = None, caller: str | None = None) -> Spending:
        return _spending(self._sums.get(_account(run, caller), Counter()))

    async def check(self, run: str, caller: str, ceiling: float | None) -> None:
        if ceiling is not None:
            _check(run, caller, await self.spent(run, caller), ceiling)


class RedisLedger:
    """Implements `Ledger` for all replicas on one Redis.

    A sum is forgotten `ttl_s` after its last charge.
    """

    def __init__(
        self, redis_url: str, user: str, *, ttl_s: int = _TTL_S, timeout_s: float = 2.0
    ) -> None:
        self._prefix = prefix_of(user) + "ledger:"
        self._redis = connect(redis_url, timeout_s)
        self._ttl_s = ttl_s

    async def open(self) -> None:
        with reaching():
            await self._redis.ping()

    async def close(self) -> None:
        await self._redis.aclose()

    async def charge(
        self, run: str, caller: str, provider: str, usage: Usage, price: Price
    ) -> None:
        entry = _entry(provider, usage, price)
        async with self._redis.pipeline(transaction=True) as pipeline:
            for account in _accounts(run, caller):
                for name, amount in entry.items():
                    pipeline.hincrby(self._prefix + account, name, amount)
                pipeline.expire(self._prefix + account, self._ttl_s)
            with reaching():
                await pipeline.execute()

    async def spent(self, run: str | None = None, caller: str | None = None) -> Spending:
        with reaching():
            sums = await self._redis.hgetall(self._prefix + _account(run, caller))
        return _spending({str(name): int(number) for name, number in sums.items()})

    async def check(self, run: str, caller: str, ceiling: float | None) -> None:
        if ceiling is not None:
            _check(run, caller, await self.spent(run, caller), ceiling)
