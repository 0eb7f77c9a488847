"""Intervals against published values, and the conclusions they allow."""

import pytest

from assay_reward.or_debug.evaluate.intervals import CellEstimate, TargetVerdict, estimate, judge
from assay_shared.statistics.interval import wilson_interval


def test_a_bootstrap_repeats_and_covers_the_mean() -> None:
    values = [0.1, 0.4, 0.35, 0.8, 0.9, 0.2]
    found = estimate(values)
    assert found == estimate(values)
    assert found.low < found.mean < found.high


def test_equal_values_have_no_spread() -> None:
    found = estimate([0.3] * 5)
    assert (found.low, found.high, found.n) == pytest.approx((0.3, 0.3, 5))


def test_shares_of_success_get_wilsons_interval() -> None:
    found = estimate([1.0, 0.0, 1.0])
    expected = wilson_interval(2, 3, 0.95)
    assert (found.mean, found.low, found.high) == (expected.value, expected.low, expected.high)


@pytest.mark.rule("no figure is given without its interval")
@pytest.mark.parametrize(
    ("low", "high", "finding"),
    [
        (0.62, 0.78, TargetVerdict.PASS),
        (0.55, 0.65, TargetVerdict.INCONCLUSIVE),
        (0.75, 0.85, TargetVerdict.INCONCLUSIVE),
        (0.50, 0.90, TargetVerdict.INCONCLUSIVE),
        (0.30, 0.50, TargetVerdict.FAIL),
        (0.85, 0.95, TargetVerdict.FAIL),
    ],
)
def test_a_target_is_judged_by_the_interval(
    low: float, high: float, finding: TargetVerdict
) -> None:
    found = CellEstimate(mean=(low + high) / 2, low=low, high=high, n=100)
    assert judge(found, 0.6, 0.8) is finding
