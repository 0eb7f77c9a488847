"""Quantiles, against scipy's."""

import pytest
from scipy import stats

from assay_shared.statistics.quantiles import normal_quantile, normal_share, t_quantile


@pytest.mark.parametrize("freedom", [3, 5, 10, 30, 200])
@pytest.mark.parametrize("share", [0.025, 0.05, 0.9, 0.995])
def test_quantiles_of_students_t_are_within_two_percent(share: float, freedom: int) -> None:
    assert t_quantile(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=0.02)


def test_the_normal_quantile_is_the_inverse_of_the_share() -> None:
    assert normal_share(normal_quantile(0.975)) == pytest.approx(0.975)
    assert normal_quantile(0.975) == pytest.approx(1.959964, abs=1e-6)


def test_students_t_without_freedom_is_refused() -> None:
    with pytest.raises(ValueError, match="degree of freedom"):
        t_quantile(0.9, 0)
