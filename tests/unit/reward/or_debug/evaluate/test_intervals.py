"""Intervals against published values, and what they allow to say."""

import pytest

from assay_reward.or_debug.evaluate.intervals import (
    CellEstimate,
    TargetVerdict,
    bootstrap,
    estimate,
    judge,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_wilson_intervals(successes: int, n: int, low: float, high: float) -> None:
    """The last is Newcombe's example (1998, method 3)."""
    found = wilson(successes, n)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    assert found.mean == successes / n


def test_a_bootstrap_repeats_and_covers_the_mean() -> None:
    values = [0.1, 0.4, 0.35, 0.8, 0.9, 0.2]
    found = bootstrap(values)
    assert found == bootstrap(values)
    assert found.low < found.mean < found.high


def test_equal_values_have_no_spread() -> None:
    assert bootstrap([0.3] * 5) == CellEstimate(mean=0.3, low=0.3, high=0.3, n=5)


def test_shares_get_wilson_and_the_rest_a_bootstrap() -> None:
    assert estimate([1.0, 0.0, 1.0]) == wilson(2, 3)
    assert estimate([1.0, 0.5, 1.0]) == bootstrap([1.0, 0.5, 1.0])


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
