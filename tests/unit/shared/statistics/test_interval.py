import pytest

from assay_shared.statistics.interval import normal_interval, wilson_interval


def test_wilsons_interval_is_never_empty_and_holds_the_share() -> None:
    """9 of 12 and 0 of 164, by the formula's own tables."""
    twelve = wilson_interval(9, 12, 0.95)
    assert (twelve.low, twelve.high) == pytest.approx((0.4677, 0.9111), abs=1e-3)
    none = wilson_interval(0, 164, 0.95)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(0.0229, abs=1e-3)
    with pytest.raises(ValueError, match="0 of 0"):
        wilson_interval(0, 0, 0.95)


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
    found = wilson_interval(successes, n, 0.95)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    assert found.value == successes / n


def test_a_mean_has_the_textbooks_normal_interval() -> None:
    """Of 1, 2, 3, 4: mean 2.5, deviation 1.2910, error 0.6455, times 1.96."""
    found = normal_interval([1, 2, 3, 4], 0.95)
    assert found is not None
    assert found.value == 2.5
    assert found.low == pytest.approx(2.5 - 1.2652, abs=1e-4)
    assert found.high == pytest.approx(2.5 + 1.2652, abs=1e-4)
    assert normal_interval([1.0], 0.95) is None
