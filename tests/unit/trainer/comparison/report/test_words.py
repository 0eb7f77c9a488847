"""Numbers as people read them."""

import pytest

from assay_trainer.comparison.metrics import MetricUnit
from assay_trainer.comparison.report.words import change_text, counted, listed, p_text, value_text
from assay_trainer.comparison.results import Bounds

SHARE, TOKENS, SECONDS = MetricUnit.SHARE, MetricUnit.TOKENS, MetricUnit.SECONDS


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        (SHARE, 0.4312, "43.1%"),
        (SHARE, 1.0, "100.0%"),
        (TOKENS, 1234.4, "1,234"),
        (TOKENS, 3.14, "3.1"),
        (SECONDS, 0.5, "0.500 s"),
    ],
)
def test_values_have_their_unit(unit: MetricUnit, value: float, expected: str) -> None:
    assert value_text(unit, value) == expected


def test_changes_have_a_sign_and_their_interval() -> None:
    found = Bounds(value=0.138, low=0.059, high=0.214)
    assert change_text(found, False, SHARE) == "+13.8 pp (+5.9 to +21.4)"
    assert change_text(found, True, TOKENS) == "+13.8% (+5.9 to +21.4)"
    assert change_text(Bounds(value=-4.0, low=-9.0, high=1.0), False, TOKENS) == (
        "-4.0 tokens (-9.0 to +1.0)"
    )


def test_an_unbounded_end_is_infinite_and_an_unknown_interval_is_left_out() -> None:
    assert change_text(Bounds(value=0.5, low=-0.2, high=None), True, TOKENS).endswith("+∞)")
    assert change_text(Bounds(value=0.5, low=None, high=None), False, SHARE) == "+50.0 pp"
    assert change_text(None, False, SHARE) == "-"


def test_small_words() -> None:
    assert p_text(0.0004) == "<0.001"
    assert p_text(0.0271) == "0.027"
    assert p_text(1.0) == "1"
    assert p_text(None) == "-"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert counted(1, "task") == "1 task"
    assert counted(1200, "task") == "1,200 tasks"
