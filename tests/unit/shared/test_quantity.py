import pytest
from assay_reward.quantity import last_quantity, parse_quantity

from assay_reward.verifiers.math import MATH, same_number
from assay_shared.symbolic import Symbolic
from tests.unit.reward.measuring import measure


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
        ("50%", "50"),
        ("50%", "0.5"),
        (r"50\%", "50 percent"),
        ("1,000", "1000"),
        ("1 000", "1000"),
        ("1{,}000", r"1\,000"),
        ("$5 million", "5,000,000"),
        ("3 1/2", "3.5"),
        (r"90^\circ", "90 degrees"),
        ("**12**", "12."),
        ("5 red apples", "5"),
        ("90 minutes", "1.5 hours"),
        ("£5", "5 pounds"),
    ],
)
def test_equal_quantities_are_equal_however_they_are_written(one: str, other: str) -> None:
    assert same_number(one, other) is True
    assert same_number(other, one) is True


@pytest.mark.parametrize(
    ("one", "other"),
    [("5 km", "5 m"), ("$5", "€5"), ("5%", "5 km"), ("-5", "5"), ("0.5%", "50"), ("5 kg", "5 km")],
)
def test_other_values_and_units_of_other_things_are_not(one: str, other: str) -> None:
    assert same_number(one, other) is False


@pytest.mark.parametrize(
    "text", ["5 or 6", "5, 6", "5 6", "5 is not 6", "1,00", "+-5", "", "x" * 500]
)
def test_what_is_not_one_number_is_no_quantity(text: str) -> None:
    assert parse_quantity(text) is None


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("It takes 5 km.", "5 km"),
        ("so 10-3", "3"),
        ("= -3.5.", "-3.5"),
        ("it costs $1,234.50 in all", "$1,234.50"),
        ("20% of it", "20%"),
        ("3 minutes and 4 seconds", "4 seconds"),
        ("5 million people", "5 million"),
        ("none", None),
    ],
)
def test_the_last_quantity_of_a_text_keeps_its_unit(text: str, last: str | None) -> None:
    assert last_quantity(text) == last


async def test_an_answer_that_names_several_values_has_none_of_them(symbolic: Symbolic) -> None:
    several = (r"\boxed{5 or 6}", r"\boxed{5, 6}", r"\boxed{5 6}", r"\boxed{6 \pm 1}")
    assert await measure(MATH, *several, symbolic=symbolic, reference="6") == [0.0] * 4
