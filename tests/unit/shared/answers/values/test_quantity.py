"""Numbers with their units: the same, different, or undecided."""

from fractions import Fraction

import pytest

from assay_shared.answers.extraction import last_quantity
from assay_shared.answers.values.quantity import parse_quantity


def same(one: str, other: str) -> bool | None:
    first, second = parse_quantity(one), parse_quantity(other)
    assert first is not None, one
    assert second is not None, other
    assert first.equals(second) == second.equals(first)
    return first.equals(second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5 km", "5"),
        ("5 km", "5000 m"),
        (r"5\text{ km}", "5km"),
        (r"5~\mathrm{km}", "5 kilometers"),
        ("$5", "5 dollars"),
        (r"\$5", "5"),
        ("$5.00$", "5"),
        ("-$5", "$-5"),
        ("−5", "-5"),
        ("5 cents", "$0.05"),
        ("50%", "0.5"),
        (r"50\%", "50 percent"),
        ("1,000", "1000"),
        ("1 000", "1000"),
        ("1{,}000", r"1\,000"),
        ("$5 million", "5,000,000"),
        ("3 1/2", "3.5"),
        (r"3\frac{1}{2}", "7/2"),
        (r"90^\circ", "90 degrees"),
        ("**12**", "12."),
        ("5 red apples", "5"),
        ("1 apple", "1"),
        ("90 minutes", "1.5 hours"),
        ("1.5e3", "1500"),
        (r"6.02 \times 10^{23}", "6.02e23"),
        ("½", "0.5"),
        (r"0.\overline{3}", "1/3"),
        (r"0.1\overline{6}", r"\frac16"),
        (r"5\text{ m}^2", "5"),
        ("5 m²", "5 square meters"),
        ("36 km/h", "10 m/s"),
        ("1 hectare", "10000 square metres"),
        ("1 dozen", "12"),
    ],
)
def test_equal_quantities_are_equal_however_they_are_written(one: str, other: str) -> None:
    assert same(one, other) is True


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5 km", "5 m"),
        ("-5", "5"),
        ("0.5%", "50"),
        ("5 months", "5 years"),
        ("5 pounds", "5 kg"),
    ],
)
def test_other_values_differ(one: str, other: str) -> None:
    assert same(one, other) is False


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("$5", "€5"),
        ("5%", "5 km"),
        ("5 kg", "5 km"),
        ("5 cm", "5 cm^2"),
        ("5 apples", "5 pears"),
        ("5 celsius", "5 fahrenheit"),
        ("180 degrees", "180 radians"),
        ("5 pounds", "£5"),
        ("5 m", "5"),
    ],
)
def test_units_of_different_things_tell_nothing(one: str, other: str) -> None:
    assert same(one, other) is None


@pytest.mark.parametrize(
    ("answer", "reference", "outcome"),
    [
        ("50", "50%", True),
        ("0.5", "50%", True),
        ("0.5", "0.5%", False),
        ("90", "90 degrees", True),
        ("50%", "50", None),
        ("50 percent", "50", None),
        ("0.5%", "0.5", None),
        ("50%", "40", False),
        ("90°", "90", None),
        ("5 kg", "5", True),
        ("$5", "5", True),
        ("5 apples", "5", True),
    ],
)
def test_an_answer_may_leave_a_unit_out_but_adds_no_percent_or_degree_sign(
    answer: str, reference: str, outcome: bool | None
) -> None:
    given, expected = parse_quantity(answer), parse_quantity(reference)
    assert given is not None
    assert expected is not None
    assert given.equals(expected) is outcome


@pytest.mark.parametrize(
    "text",
    """5 or 6|5, 6|5 6|5 is not 6|1,00|12,34|+-5|2x|3a|5i|3 pi|5 hundredths|5 thirds|5 sixths|5k
5 bn|5 over seven|5 point two|5 times x|5 squared|5 factorial|2 PM|7:30|5 below zero|5 is wrong|7²
²|1/0|5 \\pm 2|5!|101_2|5 less one|1e999|x""".replace("\n", "|").split("|"),
)
def test_what_is_not_one_number_with_a_unit_is_no_quantity(text: str) -> None:
    assert parse_quantity(text) is None


@pytest.mark.parametrize("text", ["", "x" * 500, "9" * 101, "1e301"])
def test_a_number_has_bounds(text: str) -> None:
    assert parse_quantity(text) is None


def test_values_are_exact() -> None:
    quantity = parse_quantity("0.1")
    assert quantity is not None
    assert quantity.value == Fraction(1, 10)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("It takes 5 km.", "5 km"),
        ("= -3.5.", "-3.5"),
        ("it costs $1,234.50 in all", "$1,234.50"),
        ("20% of it", "20%"),
        ("5 million people", "5 million"),
        ("3 + 4 = 7", "7"),
        ("none", None),
        ("so 10-3", None),
        ("it is 2^3", None),
        ("x + 3", None),
        ("It could be 5 or 6 or 7", None),
        ("1 2 3 4 5 6 7", None),
        ("5 hundredths", None),
    ],
)
def test_the_last_number_keeps_its_unit_and_is_no_part_of_more(text: str, last: str | None) -> None:
    assert last_quantity(text) == last
