"""Groups in Redis: used ones leave it, and are still known."""

import pytest
import redis

from assay_shared.errors import Overloaded
from assay_trainer.rollouts.store import CONSUMED_S, GroupStore
from tests.support.fakes import make_scored_group
from tests.support.valkey import TestValkey


def used_bytes(valkey: TestValkey) -> int:
    with redis.Redis.from_url(valkey.url) as client:
        return int(client.info("memory")["used_memory"])


def test_a_used_group_leaves_a_mark_that_ends_by_itself(valkey: TestValkey) -> None:
    store = GroupStore(valkey.url)
    scored = make_scored_group("k", 1.0, 0.0)
    store.consumed("k")
    assert not store.has("k"), "what was never stored gets no mark"
    assert store.put_once(scored)
    assert store.fetch(["k"]) == {"k": scored}
    store.consumed("k")
    assert store.has("k"), "a redelivery finds it and plays nothing"
    assert store.fetch(["k"]) == {}
    assert not store.put_once(scored)
    with redis.Redis.from_url(valkey.url) as client:
        assert client.strlen("assay:group:k") == 0
        assert 0 < client.ttl("assay:group:k") <= CONSUMED_S
    store.close()


def test_a_thousand_steps_leave_redis_flat(valkey: TestValkey) -> None:
    """Groups of 8 answers with 256 tokens, 64 a step, have some 60 KB each: here 20 of a step."""
    store = GroupStore(valkey.url)
    group = make_scored_group("k", *(float(i % 2) for i in range(8)))
    rollout = group.group.rollouts[0]
    span = rollout.spans[0].model_copy(update={"num_tokens": 256})
    long = rollout.model_copy(
        update={"token_ids": (50_000,) * 256, "logprobs": (-0.123456,) * 256, "spans": (span,)}
    )
    full = group.group.model_copy(update={"rollouts": (long,) * 8})
    sizes = []
    for step in range(50):
        for index in range(20):
            key = f"{step}/{index}"
            stored = full.model_copy(update={"key": key})
            store.put_once(group.model_copy(update={"group": stored}))
            assert store.fetch([key])
            store.consumed(key)
        sizes.append(used_bytes(valkey))
    assert sizes[-1] - sizes[0] < 1000 * 400, "some hundred bytes a mark"
    store.close()


def test_a_full_redis_is_named(valkey: TestValkey) -> None:
    store = GroupStore(valkey.url)
    with redis.Redis.from_url(valkey.url) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(Overloaded, match="Redis is full"):
                store.put_once(make_scored_group("k", 1.0))
        finally:
            client.config_set("maxmemory", 0)
    store.close()
