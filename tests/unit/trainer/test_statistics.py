import itertools
import random

import pytest

from assay_trainer.statistics import mean_interval, paired_difference, pass_at_k, wilson_interval


def test_pass_at_k_equals_counting_every_subset() -> None:
    for n, c, k in itertools.product(range(1, 7), range(7), range(1, 7)):
        if c <= n and k <= n:
            samples = [True] * c + [False] * (n - c)
            subsets = list(itertools.combinations(samples, k))
            expected = sum(any(subset) for subset in subsets) / len(subsets)
            assert pass_at_k(n, c, k) == pytest.approx(expected)


def test_pass_at_k_needs_k_samples() -> None:
    with pytest.raises(ValueError, match="pass@5 cannot be estimated from 4 samples"):
        pass_at_k(4, 4, 5)


def test_pass_at_k_is_unbiased_where_best_of_n_is_not() -> None:
    rng = random.Random(0)
    p, n, k = 0.3, 4, 2
    draws = [sum(rng.random() < p for _ in range(n)) for _ in range(20_000)]
    truth = 1 - (1 - p) ** k
    assert sum(pass_at_k(n, c, k) for c in draws) / len(draws) == pytest.approx(truth, abs=0.01)


def test_intervals_cover_at_their_nominal_rate() -> None:
    rng = random.Random(0)
    covered = 0
    for trial in range(300):
        values = [rng.betavariate(2, 3) for _ in range(60)]
        interval = mean_interval(values, 0.95, seed=trial)
        covered += interval.low <= 0.4 <= interval.high
    assert 0.91 <= covered / 300 <= 0.98


def test_a_paired_difference_is_narrower_than_two_intervals() -> None:
    rng = random.Random(0)
    before = [rng.random() for _ in range(100)]
    after = [min(1.0, value + 0.1 * rng.random()) for value in before]
    difference = paired_difference(before, after, 0.95, seed=0)
    alone = mean_interval(before, 0.95, seed=0)
    assert difference.low > 0
    assert difference.high - difference.low < (alone.high - alone.low) / 3


def test_one_value_is_its_own_interval_and_none_is_an_error() -> None:
    interval = mean_interval([0.5], 0.95, seed=0)
    assert (interval.value, interval.low, interval.high) == (0.5, 0.5, 0.5)
    with pytest.raises(ValueError, match="at least one value"):
        mean_interval([], 0.95, seed=0)
    with pytest.raises(ValueError, match="2 and 1 values cannot be paired"):
        paired_difference([1, 2], [1], 0.95, seed=0)


def test_wilsons_interval_is_never_empty_and_holds_the_share() -> None:
    """9 of 12 and 0 of 164, by the formula's own tables."""
    twelve = wilson_interval(9, 12, 0.95)
    assert (twelve.low, twelve.high) == pytest.approx((0.4677, 0.9111), abs=1e-3)
    none = wilson_interval(0, 164, 0.95)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(0.0229, abs=1e-3)
    with pytest.raises(ValueError, match="0 of 0"):
        wilson_interval(0, 0, 0.95)
