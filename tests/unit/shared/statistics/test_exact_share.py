"""Exact intervals of shares, against scipy's."""

import pytest
from scipy import stats

from assay_shared.statistics.exact_share import exact_interval, reaching_unseen
from assay_shared.statistics.interval import Interval


@pytest.mark.parametrize(
    ("successes", "trials"), [(0, 12), (1, 24), (12, 24), (24, 24), (700, 2400)]
)
def test_bounds_are_those_of_scipy(successes: int, trials: int) -> None:
    expected = stats.binomtest(successes, trials).proportion_ci(0.95, method="exact")
    found = exact_interval(successes, trials, 0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert found.value == successes / trials


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 2)])
def test_no_share_is_refused(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="is not a share"):
        exact_interval(successes, trials, 0.95)


def test_an_interval_reaches_the_extreme_tasks_that_few_may_lack() -> None:
    narrow = Interval(0.5, 0.49, 0.51)
    unseen = exact_interval(0, 24, 0.95).high
    found = reaching_unseen(narrow, 24, (0.0, 1.0), 0.95)
    assert found.low == pytest.approx(0.5 * (1 - unseen))
    assert found.high == pytest.approx(0.5 + 0.5 * unseen)
    wide = Interval(0.5, 0.1, 1.2)
    assert reaching_unseen(wide, 24, (0.0, 1.0), 0.95) == Interval(0.5, 0.1, 1.0)
