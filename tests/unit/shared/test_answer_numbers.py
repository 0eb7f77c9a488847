from fractions import Fraction

import pytest
from assay_shared.numbers import last_number, parse_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", Fraction(7)),
        (" -7. ", Fraction(-7)),
        ("1,234,567.5", Fraction(2469135, 2)),
        (".5", Fraction(1, 2)),
        ("3/4", Fraction(3, 4)),
        ("$5", Fraction(5)),
        ("50%", Fraction(50)),
        ("+1", Fraction(1)),
    ],
)
def test_plain_numbers(text: str, value: Fraction) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text", ["", "x", "7 apples", "1,2", "12,34", "1/0", "1e5", "--1", "9" * 101, "1 2", "½"]
)
def test_anything_else_is_none(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [("3 + 4 = 7.", "7"), ("from 1,000, to 2,500", "2,500"), ("none", None), ("x-5", "-5")],
)
def test_the_last_number_of_a_text(text: str, number: str | None) -> None:
    assert last_number(text) == number
