"""Kept parts of prompts: whole blocks, within bytes, the longest unused go first."""

import torch

from assay_inference.engines.transformers.prefix_cache import (
    BLOCK_TOKENS,
    Columns,
    PrefixCache,
    columns_of,
)

BLOCK_BYTES = 2 * BLOCK_TOKENS * 4


def columns(num_tokens: int, offset: int = 0) -> Columns:
    """A layer with a head of a single number: the token's place."""
    keys = torch.arange(num_tokens, dtype=torch.float32)[None, :, None] + offset
    return [(keys, -keys)]


def ids(*runs: int, further: int = 0) -> list[int]:
    """Return blocks of a repeated id each."""
    return [run for run in runs for _ in range(BLOCK_TOKENS)] + [0] * further


def test_whole_blocks_are_found_and_never_all_of_a_prompt() -> None:
    cache = PrefixCache()
    cache.insert(ids(1, 2, further=5), columns(37), 10**6)
    assert cache.num_bytes == 2 * BLOCK_BYTES
    assert len(cache.find(ids(1, 2, further=1))) == 2
    assert len(cache.find(ids(1, 2))) == 1, "the last token has to be read for its logits"
    assert len(cache.find(ids(1, 3, further=1))) == 1
    assert cache.find(ids(2, 1, further=1)) == []
    ((keys, values),) = columns_of(cache.find(ids(1, 2, 7)))
    assert keys[0, :, 0].tolist() == list(range(32))
    assert values[0, :, 0].tolist() == [-place for place in range(32)]


def test_a_block_is_kept_once_and_by_what_it_follows() -> None:
    cache = PrefixCache()
    cache.insert(ids(1, 2), columns(32), 10**6)
    cache.insert(ids(1, 2), columns(32), 10**6)
    assert cache.num_bytes == 2 * BLOCK_BYTES
    cache.insert(ids(3, 2), columns(32, offset=100), 10**6)
    ((keys, _),) = columns_of(cache.find(ids(3, 2, 7)))
    assert keys[0, -1, 0].item() == 131


def test_what_was_used_longest_ago_goes_first_and_never_what_others_follow() -> None:
    cache = PrefixCache()
    most = 4 * BLOCK_BYTES
    cache.insert(ids(1, 2), columns(32), most)
    cache.insert(ids(1, 3), columns(32), most)
    cache.insert(ids(4), columns(16), most)
    assert cache.num_bytes == most
    cache.find(ids(1, 2, 9))
    cache.insert(ids(5), columns(16), most)
    assert len(cache.find(ids(1, 3, 9))) == 1, "the oldest leaf went"
    assert len(cache.find(ids(1, 2, 9))) == 2
    assert len(cache.find(ids(4, 9))) == 1
    cache.insert(ids(6, 7, 8, 9, 10), columns(80), most)
    assert cache.num_bytes == most, "as much of a long prompt as fits"
    assert len(cache.find(ids(6, 7, 8, 9, 10))) == 4


def test_it_shrinks_to_what_it_may_have() -> None:
    cache = PrefixCache()
    cache.insert(ids(1, 2, 3), columns(48), 10**6)
    cache.shrink(2 * BLOCK_BYTES + 1)
    assert cache.num_bytes == 2 * BLOCK_BYTES
    assert len(cache.find(ids(1, 2, 3, 4))) == 2
    cache.shrink(-5)
    assert cache.num_bytes == 0
    assert cache.find(ids(1, 2)) == []
