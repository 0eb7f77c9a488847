"""Detectable differences, and the tasks that a decision needs."""

import numpy as np
import pytest

from assay_shared.statistics.binomial import mcnemar_p
from assay_shared.statistics.interval import Interval, wilson_bounds, wilson_interval
from assay_shared.statistics.power import (
    detectable,
    detectable_share,
    smallest_significant,
    tasks_to_decide,
)


@pytest.mark.parametrize(
    ("num_tasks", "points"),
    [
        (117, (5.1, 6.8, 9.4)),
        (164, (4.9, 6.1, 7.9)),
        (200, (4.0, 5.0, 7.0)),
        (500, (2.2, 3.2, 4.4)),
    ],
)
def test_small_sets_show_only_large_differences(
    num_tasks: int, points: tuple[float, float, float]
) -> None:
    """At 5%, 10% and 20% of turned tasks: a drop of 2 points is out of reach of each of them."""
    for share, expected in zip((0.05, 0.10, 0.20), points, strict=True):
        found = smallest_significant(num_tasks, round(share * num_tasks), 0.05)
        assert found is not None
        assert 100 * found == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("num_discordant", [2, 20, 80])
def test_a_detectable_difference_is_found_in_80_percent_of_repeats(num_discordant: int) -> None:
    found = detectable_share(200, num_discordant, 0.05)
    assert found is not None
    rng, net = np.random.default_rng(0), round(found * 200)
    assert repeats_found(rng, num_discordant, net) >= 0.8 - 0.03
    assert repeats_found(rng, num_discordant, net - 1) < 0.8 + 0.03


def repeats_found(rng: np.random.Generator, num_discordant: int, net: int) -> float:
    """Return the share of simulated sets of 200 tasks with a significant test."""
    moved = max(num_discordant, net)
    shares = [(moved + net) / 400, (moved - net) / 400, 1 - moved / 200]
    counts = rng.multinomial(200, shares, size=2000)
    return float(np.mean([mcnemar_p(int(up), int(down)) < 0.05 for up, down, _ in counts]))


def test_too_few_tasks_detect_nothing() -> None:
    assert detectable_share(5, 2, 0.05) is None
    assert smallest_significant(100, 3, 0.05) is None


def test_a_means_detectable_difference_is_2_8_standard_errors() -> None:
    assert detectable(0.01, 0.05) == pytest.approx(0.028, abs=2e-4)


def test_twice_the_precision_needs_four_times_the_tasks() -> None:
    found = tasks_to_decide(Interval(0.01, -0.03, 0.05), (-0.03, 0.03), 100)
    assert found == pytest.approx(400, abs=1)
    assert tasks_to_decide(Interval(0.03, 0.0, 0.06), (0.03,), 100) is None


@pytest.mark.parametrize(
    ("right", "total", "bound"),
    [(5, 5, 0.9), (0, 5, 0.1), (3, 3, 0.5), (49, 50, 0.95), (1, 20, 0.1), (12, 30, 0.5)],
)
def test_a_share_is_decided_by_just_so_many_tasks(right: int, total: int, bound: float) -> None:
    """Wilson's interval of the same share, of that many tasks and of one fewer, says so."""
    share = right / total
    needed = tasks_to_decide(wilson_interval(right, total, 0.95), (bound,), total)
    assert needed is not None
    low, high = wilson_bounds(share, needed, 0.95)
    assert not low < bound < high
    low, high = wilson_bounds(share, needed - 1, 0.95)
    assert low < bound < high


def test_an_interval_near_one_that_is_not_wilsons_is_taken_as_symmetric() -> None:
    assert tasks_to_decide(Interval(0.95, 0.9, 1.0), (0.925,), 100) == 400
