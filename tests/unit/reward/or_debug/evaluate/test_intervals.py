"""Intervals of rates and differences: their coverage, and the conclusions they allow."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy import stats

from assay_reward.or_debug.evaluate.intervals import (
    SHARE_DIFFERENCE_ENDS,
    SHARE_ENDS,
    CellEstimate,
    TargetVerdict,
    estimate,
    estimate_difference,
    estimate_series,
    judge,
)

_TRIALS = 300
#: Of 300 trials at 2.5%, three standard errors above.
_MOST_MISSED = 0.055


def missed(truth: float, sample: Callable[[], CellEstimate]) -> tuple[float, float]:
    """Return the shares of intervals above and below the truth."""
    found = [sample() for _ in range(_TRIALS)]
    above = np.mean([one.low > truth for one in found])
    return float(above), float(np.mean([one.high < truth for one in found]))


# Rates


def test_a_bootstrap_repeats_and_covers_the_mean() -> None:
    values = [0.1, 0.4, 0.35, 0.8, 0.9, 0.2]
    found = estimate(values, is_share=True)
    assert found == estimate(values, is_share=True)
    assert found.low < found.mean < found.high


@pytest.mark.parametrize("num_tasks", [4, 12, 24, 48, 240])
def test_no_rate_passes_a_bound_that_it_does_not_reach(num_tasks: int) -> None:
    """All bounds and all outcomes: Wilson's interval would pass 16% of them near 0."""
    lows = [
        estimate([1.0] * k + [0.0] * (num_tasks - k), is_share=True).low
        for k in range(num_tasks + 1)
    ]
    for share in (0.002, 0.01, 0.05, 0.2, 0.3, 0.5, 0.6, 0.8, 0.9, 0.99):
        first = next((k for k, low in enumerate(lows) if low > share), num_tasks + 1)
        assert stats.binom.sf(first - 1, num_tasks, share) <= 0.025


@pytest.mark.parametrize("num_tasks", [12, 24, 48])
@pytest.mark.parametrize(
    ("values", "shares"),
    [
        ((1.0, 0.97, 0.0), (0.85, 0.1, 0.05)),
        ((0.0, 0.03, 1.0), (0.85, 0.1, 0.05)),
        ((0.0, 1 / 3, 1.0), (0.6, 0.3, 0.1)),
    ],
)
def test_few_equal_tasks_do_not_hide_rare_other_ones(
    num_tasks: int, values: tuple[float, ...], shares: tuple[float, ...]
) -> None:
    """A bootstrap alone lies above the truth in up to 40% of trials."""
    rng = np.random.default_rng(1)
    truth = float(np.dot(values, shares))

    def sample() -> CellEstimate:
        return estimate([*rng.choice(values, p=shares, size=num_tasks)], is_share=True)

    above, below = missed(truth, sample)
    assert above <= _MOST_MISSED
    assert below <= _MOST_MISSED


def test_equal_values_have_a_width() -> None:
    found = estimate([0.3] * 5, is_share=True)
    assert found.low < 0.2 < 0.3 < 0.5 < found.high
    tokens = estimate([512.0] * 5, is_share=False)
    assert tokens.low < 512.0 < tokens.high
    assert estimate([0.0] * 5, is_share=False).low == 0.0


def test_neighbouring_steps_that_resemble_each_other_tell_less() -> None:
    rng = np.random.default_rng(2)

    def sample() -> CellEstimate:
        steps = [5.0]
        for move in rng.normal(size=60):
            steps.append(5.0 + 0.5 * (steps[-1] - 5.0) + float(move))
        return estimate_series(steps[21:])

    above, below = missed(5.0, sample)
    assert above + below <= 0.12, "a mean of independent steps would miss 23%"
    assert estimate_series([0.5]).low < 0.5
    rising = [0.1 * step for step in range(1, 11)]
    shuffled = [rising[at] for at in (3, 8, 1, 6, 0, 9, 4, 7, 2, 5)]
    assert estimate_series(rising).low < estimate_series(shuffled).low


# Differences


@cache
def turned(num_tasks: int, num_up: int, num_down: int) -> CellEstimate:
    after = [1.0] * num_up + [-1.0] * num_down + [0.0] * (num_tasks - num_up - num_down)
    return estimate_difference([0.0] * num_tasks, after, is_share=True)


@pytest.mark.parametrize("num_tasks", [12, 24, 48, 240])
def test_no_policy_is_called_better_without_a_difference(num_tasks: int) -> None:
    """Each number of turned tasks, each split: a false PASS is at most 2.5%, given the number."""
    for num_turned in range(min(num_tasks, 16) + 1):
        found = [
            judge(turned(num_tasks, up, num_turned - up), 0.0, 1.0, SHARE_DIFFERENCE_ENDS)
            for up in range(num_turned + 1)
        ]
        chances = stats.binom.pmf(range(num_turned + 1), num_turned, 0.5)
        for verdict in (TargetVerdict.PASS, TargetVerdict.FAIL):
            assert sum(chances[up] for up, one in enumerate(found) if one is verdict) <= 0.025


@pytest.mark.parametrize(("up", "down"), [(1, 0), (5, 0), (6, 1), (0, 0)])
def test_few_turned_tasks_are_inconclusive(up: int, down: int) -> None:
    assert judge(turned(48, up, down), 0.0, 1.0) is TargetVerdict.INCONCLUSIVE


def test_six_tasks_that_turned_alike_are_enough() -> None:
    assert judge(turned(48, 6, 0), 0.0, 1.0, SHARE_DIFFERENCE_ENDS) is TargetVerdict.PASS
    assert judge(turned(48, 0, 6), 0.0, 1.0, SHARE_DIFFERENCE_ENDS) is TargetVerdict.FAIL


@pytest.mark.parametrize("num_tasks", [12, 24, 48])
@pytest.mark.parametrize("bound", [-0.2, -0.1, -0.05, 0.1])
def test_no_policy_passes_a_bound_that_its_difference_touches(num_tasks: int, bound: float) -> None:
    """The true difference is the bound: equal results of few tasks must not pass it."""
    for share_up in (0.0, 0.05, 0.2):
        share_down = share_up - bound
        if share_down < 0:
            continue
        shares = (share_up, share_down, 1 - share_up - share_down)
        passed = sum(
            stats.multinomial.pmf((up, down, num_tasks - up - down), num_tasks, shares)
            for up in range(min(num_tasks, 16) + 1)
            for down in range(min(num_tasks - up, 16) + 1)
            if turned(num_tasks, up, down).low > bound
        )
        assert passed <= 0.05


@pytest.mark.parametrize("num_tasks", [12, 48])
def test_rare_falls_are_not_hidden_by_small_rises(num_tasks: int) -> None:
    rng = np.random.default_rng(3)
    values, shares = (0.0, 0.03, -1.0), (0.5, 0.43, 0.07)

    def sample() -> CellEstimate:
        after = [*rng.choice(values, p=shares, size=num_tasks)]
        return estimate_difference([0.0] * num_tasks, after, is_share=True)

    above, below = missed(float(np.dot(values, shares)), sample)
    assert max(above, below) <= _MOST_MISSED


def test_a_difference_of_counts_has_their_unit() -> None:
    found = estimate_difference([90.0, 80.0, 100.0] * 10, [40.0, 35.0, 45.0] * 10, is_share=False)
    assert found.mean == pytest.approx(-50.0)
    assert found.low < -50.0 < found.high < -30.0


# Verdicts


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
        (0.60, 0.70, TargetVerdict.INCONCLUSIVE),
        (0.65, 0.80, TargetVerdict.INCONCLUSIVE),
        (0.50, 0.60, TargetVerdict.INCONCLUSIVE),
    ],
)
def test_a_target_is_judged_by_the_interval(
    low: float, high: float, finding: TargetVerdict
) -> None:
    found = CellEstimate(mean=(low + high) / 2, low=low, high=high, n=100)
    assert judge(found, 0.6, 0.8) is finding


def test_a_bound_at_the_end_of_all_values_excludes_nothing() -> None:
    found = CellEstimate(mean=1.0, low=0.95, high=1.0, n=100)
    assert judge(found, 0.9, 1.0, SHARE_ENDS) is TargetVerdict.PASS
    assert judge(found, 0.9, 1.0) is TargetVerdict.INCONCLUSIVE
    assert judge(found, 0.95, 1.0, SHARE_ENDS) is TargetVerdict.INCONCLUSIVE
