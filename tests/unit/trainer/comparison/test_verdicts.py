"""Verdicts of rows."""

import pytest

from assay_trainer.comparison.metrics import Better, MetricUnit
from assay_trainer.comparison.results import Bounds, ComparedRow, RowVerdict, UncomparedTasks
from assay_trainer.comparison.verdicts import with_verdicts


def make_row(p: float | None, low: float, high: float, **values: object) -> ComparedRow:
    known: dict[str, object] = {
        "set": "m",
        "stratum": None,
        "metric": "pass@1",
        "title": "pass@1",
        "unit": MetricUnit.SHARE,
        "better": Better.HIGHER,
        "arm": "b",
        "num_tasks": 100,
        "left_out": UncomparedTasks(),
        "baseline": None,
        "value": None,
        "difference": Bounds(value=(low + high) / 2, low=low, high=high),
        "p": p,
    }
    return ComparedRow.model_validate(known | values)


def verdicts(*rows: ComparedRow) -> list[RowVerdict]:
    return [row.verdict for row in with_verdicts(rows, 0.05)]


def test_a_verdict_needs_the_corrected_p_and_the_interval() -> None:
    clear = make_row(0.001, 0.05, 0.15)
    assert verdicts(clear) == [RowVerdict.BETTER]
    assert verdicts(make_row(0.001, -0.15, -0.05)) == [RowVerdict.WORSE]
    assert verdicts(make_row(0.001, -0.01, 0.15)) == [RowVerdict.INCONCLUSIVE]
    assert verdicts(make_row(0.2, 0.01, 0.15)) == [RowVerdict.INCONCLUSIVE]


def test_a_fall_is_better_where_less_is_better() -> None:
    assert verdicts(make_row(0.001, -0.2, -0.1, better=Better.LOWER)) == [RowVerdict.BETTER]


def test_many_tests_are_corrected_together_and_rows_without_a_test_do_not_count() -> None:
    alone = make_row(0.03, 0.01, 0.15)
    assert verdicts(alone) == [RowVerdict.BETTER]
    with_others = verdicts(alone, make_row(0.5, -0.1, 0.1), make_row(None, 0.1, 0.2))
    assert with_others == [RowVerdict.INCONCLUSIVE, RowVerdict.INCONCLUSIVE, RowVerdict.UNTESTED]


def test_within_the_margin_is_the_same_even_if_it_differs() -> None:
    row = make_row(0.0001, 0.002, 0.01, p_equivalence=0.001, margin=0.02)
    assert verdicts(row) == [RowVerdict.SAME]
    assert verdicts(make_row(0.6, -0.01, 0.01, p_equivalence=0.2)) == [RowVerdict.INCONCLUSIVE]


def test_a_change_of_tokens_is_judged_relatively() -> None:
    wide = Bounds(value=0.5, low=-0.1, high=None)
    row = make_row(0.001, 10, 20, unit=MetricUnit.TOKENS, better=Better.LOWER, relative=wide)
    assert verdicts(row) == [RowVerdict.INCONCLUSIVE]
    assert row.headline is not None
    assert row.headline.interval.high == pytest.approx(float("inf"))


def test_new_rows_stay_new() -> None:
    assert verdicts(make_row(None, 0, 0, verdict=RowVerdict.NEW)) == [RowVerdict.NEW]
