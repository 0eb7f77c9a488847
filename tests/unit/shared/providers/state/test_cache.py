import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping

import pytest
import redis
from prometheus_client import CollectorRegistry
from pydantic import JsonValue

from assay_shared.providers.state.cache import Cache, ProcessCache, RedisCache, cache_key
from tests.support.valkey import TestValkey


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture(params=["process", "redis"])
async def cache(
    request: pytest.FixtureRequest, registry: CollectorRegistry
) -> AsyncIterator[Cache]:
    made: Cache
    if request.param == "redis":
        made = RedisCache(request.getfixturevalue("valkey").url, registry, "judge")
    else:
        made = ProcessCache(registry, "judge")
    yield made
    await made.close()


def key(
    model: str = "m",
    revision: str | None = "r",
    template: str = "t",
    sampling: Mapping[str, JsonValue] | None = None,
    inputs: Mapping[str, JsonValue] | None = None,
) -> str:
    return cache_key(
        model=model,
        revision=revision,
        template=template,
        sampling={"seed": 1, "temperature": 0.0} if sampling is None else sampling,
        inputs={"question": "q", "answers": ["a", "b"]} if inputs is None else inputs,
    )


def looked_up(registry: CollectorRegistry, outcome: str) -> float | None:
    return registry.get_sample_value("assay_judge_cache_lookups_total", {"outcome": outcome})


def stored(registry: CollectorRegistry, outcome: str) -> float | None:
    return registry.get_sample_value("assay_judge_cache_stores_total", {"outcome": outcome})


def test_everything_that_matters_makes_another_key() -> None:
    different = [
        key(),
        key(model="n"),
        key(revision=None),
        key(template="u"),
        key(sampling={"seed": 2, "temperature": 0.0}),
        key(sampling={}),
        key(inputs={"question": "q", "answers": ["b", "a"]}),
        key(inputs={"question": "q", "answers": ["ab"]}),
        key(inputs={"question": " q", "answers": ["a", "b"]}),
        key(inputs={"question": "Q", "answers": ["a", "b"]}),
        key(inputs={"question": "q\n \nq", "answers": ["a", "b"]}),
        key(inputs={"question": "q\nq", "answers": ["a", "b"]}),
        key(inputs={"question": None, "answers": ["a", "b"]}),
    ]
    assert len(set(different)) == len(different)
    assert all(len(one) == 64 for one in different)


def test_unicode_forms_white_space_at_the_end_and_order_of_names_do_not_matter() -> None:
    assert key(sampling={"temperature": 0.0, "seed": 1}) == key()
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    one = key(inputs={"question": composed, "answers": ["a", "b \n"]})
    assert one == key(inputs={"answers": ["a", "b"], "question": decomposed + " "})


async def test_what_is_put_comes_back(cache: Cache, registry: CollectorRegistry) -> None:
    assert await cache.get("k") is None
    await cache.put("k", "é")
    await cache.put("k", "ë")
    assert await cache.get("k") == "ë"
    assert (looked_up(registry, "miss"), looked_up(registry, "hit")) == (1, 1)
    assert stored(registry, "stored") == 2


async def test_the_longest_unused_goes_when_memory_is_full(registry: CollectorRegistry) -> None:
    cache = ProcessCache(registry, "judge", max_bytes=33)
    for name in "abc":
        await cache.put(name, "x" * 10)
    await cache.get("a")
    await cache.put("d", "x" * 10)
    assert [await cache.get(name) is not None for name in "abcd"] == [True, False, True, True]
    await cache.put("c", "é")
    assert cache.num_bytes == 11 + 11 + 3
    await cache.put("e", "x" * 33)
    assert stored(registry, "too_large") == 1
    assert cache.num_bytes == 25


async def test_values_in_redis_have_a_size_and_an_end(
    valkey: TestValkey, registry: CollectorRegistry
) -> None:
    cache = RedisCache(valkey.url, registry, "judge", ttl_s=100, max_value_bytes=10)
    await cache.put("k", "x" * 10)
    await cache.put("large", "é" * 6)
    assert await cache.get("large") is None
    assert stored(registry, "too_large") == 1
    other = RedisCache(valkey.url, CollectorRegistry(), "judge")
    assert await other.get("k") == "x" * 10
    with redis.Redis.from_url(valkey.url) as client:
        assert client.keys() == [b"assay:judge:cache:k"]
        assert 90 < client.ttl("assay:judge:cache:k") <= 100
    await cache.close()
    await other.close()


async def test_without_redis_all_is_a_miss_that_is_counted_and_logged_once(
    own_valkey: TestValkey,
    registry: CollectorRegistry,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("assay_shared.providers.state.cache._REST_S", 0.1)
    cache = RedisCache(own_valkey.url, registry, "judge")
    await cache.put("k", "v")
    own_valkey.kill()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await cache.get("k") is None
            await cache.put("l", "v")
            await asyncio.sleep(0.11)  # it is asked again
    assert (looked_up(registry, "unreachable"), stored(registry, "unreachable")) == (3, 3)
    [record] = [r for r in caplog.records if r.name == "assay_shared.providers.state.cache"]
    assert record.getMessage().startswith("working without the cache: no Redis")
    await asyncio.to_thread(own_valkey.start)
    assert await cache.get("k") == "v"
    await cache.close()


async def test_a_redis_that_hangs_costs_little(
    own_valkey: TestValkey, registry: CollectorRegistry
) -> None:
    cache = RedisCache(own_valkey.url, registry, "judge", timeout_s=0.1)
    await cache.put("k", "v")
    os.kill(own_valkey.process.pid, signal.SIGSTOP)
    started = time.monotonic()
    for _ in range(100):
        assert await cache.get("k") is None
    assert time.monotonic() - started < 2.0, "a hundred waits of 0.1 s are 10 s"
    os.kill(own_valkey.process.pid, signal.SIGCONT)
    await cache.close()
