import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
import redis

from assay_shared.errors import BudgetExceeded, InfrastructureError, Unreachable
from assay_shared.providers.config import Price
from assay_shared.providers.state.ledger import (
    Ledger,
    ProcessLedger,
    RedisLedger,
    Spending,
    Usage,
    micro_money,
)
from assay_shared.types import FailureClass
from tests.support.valkey import TestValkey

PRICE = Price(input_per_million=Decimal("0.15"), output_per_million=Decimal("0.6"))
USAGE = Usage(1000, 100)  # 150 + 60 millionths


@pytest.fixture(params=["process", "redis"])
async def ledger(request: pytest.FixtureRequest) -> AsyncIterator[Ledger]:
    made: Ledger = ProcessLedger()
    if request.param == "redis":
        made = RedisLedger(request.getfixturevalue("valkey").url, "judge")
    await made.open()
    yield made
    await made.close()


def test_prices_are_of_a_million_tokens_and_round_up() -> None:
    assert micro_money(USAGE, PRICE) == 210
    assert micro_money(Usage(1, 0), PRICE) == 1
    assert micro_money(Usage(10**9, 0), PRICE) == 150 * 10**6
    assert micro_money(USAGE, Price()) == 0
    # In floating point 3 * 0.1 is more than 0.3, and would cost another millionth.
    assert micro_money(Usage(30, 0), Price.model_validate({"input_per_million": 0.1})) == 3


async def test_spending_is_by_run_by_caller_by_both_and_in_all(ledger: Ledger) -> None:
    await ledger.charge("r1", "alice", "gpt", USAGE, PRICE)
    await ledger.charge("r1", "alice", "local", USAGE, Price())
    await ledger.charge("r1", "bob", "gpt", USAGE, PRICE)
    await ledger.charge("r2", "alice", "gpt", USAGE, PRICE)
    assert await ledger.spent("r1", "alice") == Spending(
        prompt_tokens=2000,
        completion_tokens=200,
        money=0.00021,
        num_requests={"gpt": 1, "local": 1},
    )
    assert (await ledger.spent(run="r1")).num_requests == {"gpt": 2, "local": 1}
    assert (await ledger.spent(caller="alice")).money == 0.00042
    assert (await ledger.spent()).prompt_tokens == 4000
    assert await ledger.spent("r2", "bob") == Spending()


async def test_names_do_not_run_into_each_other(ledger: Ledger) -> None:
    await ledger.charge("a&caller=b", "", "gpt", USAGE, PRICE)
    await ledger.charge("all", "", "gpt", USAGE, PRICE)
    assert await ledger.spent("a", "b") == Spending()
    assert (await ledger.spent()).prompt_tokens == 2000
    assert (await ledger.spent(run="all")).prompt_tokens == 1000


async def test_a_ceiling_is_of_a_caller_in_a_run(ledger: Ledger) -> None:
    await ledger.charge("r1", "alice", "gpt", USAGE, PRICE)
    await ledger.check("r1", "alice", None)
    await ledger.check("r1", "alice", 0.000211)
    await ledger.check("r1", "bob", 0.0001)
    with pytest.raises(BudgetExceeded) as error:
        await ledger.check("r1", "alice", 0.00021)
    assert error.value.message == (
        "run 'r1' of caller 'alice' has spent 0.000210, its ceiling is 0.00021"
    )
    assert error.value.failure_class is FailureClass.BUDGET
    assert not error.value.retryable


async def test_replicas_charge_one_account_at_once_and_lose_nothing(valkey: TestValkey) -> None:
    both = [RedisLedger(valkey.url, "judge") for _ in range(2)]
    await asyncio.gather(
        *(ledger.charge("r", "a", "gpt", USAGE, PRICE) for ledger in both for _ in range(200))
    )
    spending = await both[0].spent("r", "a")
    assert spending == await both[1].spent()
    assert (spending.num_requests, spending.money) == ({"gpt": 400}, 0.084)
    with redis.Redis.from_url(valkey.url, decode_responses=True) as client:
        keys = client.keys()
        assert len(keys) == 4
        for key in keys:
            assert key.startswith("assay:judge:ledger:")
            assert 30 * 24 * 3600 - 60 < client.ttl(key) <= 30 * 24 * 3600
            assert all(value.isdigit() for value in client.hvals(key)), "whole numbers only"
    for ledger in both:
        await ledger.close()


async def test_what_cannot_be_counted_is_an_error_until_redis_is_back(
    own_valkey: TestValkey,
) -> None:
    ledger = RedisLedger(own_valkey.url, "judge", timeout_s=0.5)
    await ledger.open()
    await ledger.charge("r", "a", "gpt", USAGE, PRICE)
    own_valkey.kill()
    with pytest.raises(InfrastructureError, match="no Redis"):
        await ledger.charge("r", "a", "gpt", USAGE, PRICE)
    with pytest.raises(Unreachable):
        await ledger.spent()
    with pytest.raises(Unreachable):
        await ledger.check("r", "a", 1.0)
    await ledger.check("r", "a", None)
    await asyncio.to_thread(own_valkey.start)
    await ledger.charge("r", "a", "gpt", USAGE, PRICE)
    assert (await ledger.spent("r", "a")).num_requests == {"gpt": 2}
    await ledger.close()
