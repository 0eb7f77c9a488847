"""Binomial tails and the exact McNemar test, against scipy's."""

import pytest
from scipy import stats

from assay_shared.statistics.binomial import binomial_tail, mcnemar_p, most_down


@pytest.mark.parametrize(
    ("trials", "share", "most"), [(10, 0.5, 3), (164, 0.2, 40), (8000, 0.5, 3911)]
)
def test_tails_are_those_of_scipy(trials: int, share: float, most: int) -> None:
    assert binomial_tail(trials, share, most) == pytest.approx(
        stats.binom.cdf(most, trials, share), rel=1e-8
    )


def test_tails_outside_of_the_range_are_0_and_1() -> None:
    assert binomial_tail(5, 0.5, -1) == 0.0
    assert binomial_tail(5, 0.5, 5) == 1.0
    assert binomial_tail(5, 1.0, 4) == 0.0
    assert binomial_tail(5, 0.0, 0) == 1.0


@pytest.mark.parametrize(("up", "down"), [(0, 0), (6, 0), (5, 5), (17, 6), (300, 250)])
def test_mcnemar_is_the_binomial_test_of_the_turned_tasks(up: int, down: int) -> None:
    expected = stats.binomtest(up, up + down).pvalue if up + down else 1.0
    assert mcnemar_p(up, down) == pytest.approx(expected, rel=1e-8)


def test_six_turned_tasks_are_the_fewest_with_a_significant_split() -> None:
    assert most_down(5, 0.05) is None
    assert most_down(6, 0.05) == 0
    assert most_down(0, 0.05) is None
