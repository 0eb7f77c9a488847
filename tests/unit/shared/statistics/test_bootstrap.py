import random

import pytest

from assay_shared.statistics.bootstrap import mean_interval, paired_difference


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
