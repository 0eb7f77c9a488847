"""The choice of a replica for a prompt."""

from collections import Counter

from assay_inference.engines.replicas.routing import choose, in_order

NAMES = [f"http://10.0.0.{n}:8001" for n in range(5)]
PREFIXES = [[n, n + 1, n * n] for n in range(1000)]


def test_a_prompt_prefers_the_same_replica_always() -> None:
    for prefix in PREFIXES[:50]:
        assert in_order(prefix, NAMES) == in_order(prefix, NAMES[::-1])


def test_prompts_spread_over_all_replicas() -> None:
    firsts = Counter(in_order(prefix, NAMES)[0] for prefix in PREFIXES)
    assert min(firsts.values()) > 150


def test_only_the_prompts_of_a_replica_that_is_gone_move() -> None:
    for prefix in PREFIXES:
        before = in_order(prefix, NAMES)
        assert in_order(prefix, NAMES[1:]) == [name for name in before if name != NAMES[0]]


def test_an_overloaded_replica_is_passed_over() -> None:
    for prefix in PREFIXES[:20]:
        first, second, *_ = in_order(prefix, NAMES)
        even = dict.fromkeys(NAMES, 100)
        assert choose(prefix, even, 1.25, 0) == first
        assert choose(prefix, even | {first: 125}, 1.25, 0) == first
        assert choose(prefix, even | {first: 200}, 1.25, 0) == second


def test_a_replica_with_little_to_do_is_never_too_busy() -> None:
    first = in_order([1], NAMES)[0]
    loads = dict.fromkeys(NAMES, 0) | {first: 32}
    assert choose([1], loads, 1.25, 32) == first
    assert choose([1], loads, 1.25, 31) != first


def test_where_none_is_left_none_is_chosen() -> None:
    assert choose([1], {}, 1.25, 0) is None
    assert choose([1], {"only": 10**6}, 1.0, 0) == "only"
