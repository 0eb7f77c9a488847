"""Resamples of tasks."""

import numpy as np
import pytest

from assay_shared.statistics import resampling
from assay_shared.statistics.resampling import (
    NUM_RESAMPLES,
    resampled_quantiles,
    resampled_sums,
    tails,
)


def test_resamples_have_as_many_tasks_and_the_same_ones_for_each_seed() -> None:
    columns = np.column_stack([np.ones(7), np.arange(7.0)])
    found = resampled_sums(columns, 0)
    assert found.shape == (NUM_RESAMPLES, 2)
    assert (found[:, 0] == 7).all()
    assert found[:, 1].mean() == pytest.approx(21, rel=0.02)
    assert (resampled_sums(columns, 0) == found).all()
    assert not (resampled_sums(columns, 1) == found).all()


def test_many_tasks_are_resampled_in_blocks_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = np.arange(40.0)[:, None]
    whole = resampled_sums(columns, 5)
    monkeypatch.setattr(resampling, "_KEPT_ENTRIES", 0)
    monkeypatch.setattr(resampling, "_BLOCK_ENTRIES", 40 * 300)
    assert (resampled_sums(columns, 5) == whole).all()


def test_a_quantile_of_a_resample_is_one_of_its_values() -> None:
    columns = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
    found = resampled_quantiles(columns, 0.5, 0)[:, 0]
    assert set(found) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert np.median(found) == 2.0


def test_few_tasks_have_wider_tails() -> None:
    assert tails(5, 0.95)[0] < tails(50, 0.95)[0] < 0.025
    assert tails(100_000, 0.95)[0] == pytest.approx(0.025, abs=1e-4)
    assert tails(1, 0.95) == (0.0, 1.0)


def test_equal_rows_are_drawn_together_with_the_same_spread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.repeat([0.0, 0.25, 1.0], [1500, 1000, 500])
    columns = np.column_stack([values, np.ones(3000)])
    grouped = resampled_sums(columns, 0)
    monkeypatch.setattr(resampling, "_FEW_ROWS", 0)
    single = resampled_sums(columns, 0)
    assert (grouped[:, 1] == 3000).all()
    assert grouped[:, 0].mean() == pytest.approx(single[:, 0].mean(), abs=2)
    assert grouped[:, 0].std() == pytest.approx(single[:, 0].std(), rel=0.05)
    assert grouped[:, 0].std() == pytest.approx(values.std() * 3000**0.5, rel=0.05)
