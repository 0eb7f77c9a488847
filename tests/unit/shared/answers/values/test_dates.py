"""Dates, scores, telephone numbers and ranges are texts, never computed."""

import pytest

from assay_shared.answers.equality import equal_by_proof
from assay_shared.answers.extraction import final_answer
from assay_shared.answers.values.dates import iso_date


@pytest.mark.parametrize(
    ("reference", "computed"),
    [
        ("2024-03-05", "2016"),
        ("2024-03-05", r"\boxed{2016}"),
        ("555-1234", "-679"),
        ("(555)-123-4567", "-4135"),
        ("3-2", "1"),
        ("3–2", "1"),
        ("3 - 2", "1"),
        ("10:30", "1/3"),
        ("03/05/2024", "3/10120"),
        ("1.2.3", "1.23"),
        ("5%-10%", "-5%"),
        ("1.5-2.5", "-1"),
    ],
)
def test_figures_with_marks_between_them_are_not_computed(reference: str, computed: str) -> None:
    assert not equal_by_proof(computed, reference)
    assert not equal_by_proof(reference, computed)
    assert equal_by_proof(final_answer(f"The answer is {reference}.") or "", reference)


def test_other_differences_are() -> None:
    assert equal_by_proof(r"3-\sqrt{4}", "1")
    assert equal_by_proof("1 / 2", "0.5")
    assert equal_by_proof("3 + 4", "7")


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-05",
        "2024/3/5",
        "March 5, 2024",
        "5 March 2024",
        "Mar. 5 2024",
        "5th of March, 2024",
    ],
)
def test_a_date_is_the_same_date_in_many_ways(text: str) -> None:
    assert iso_date(text) == "2024-03-05"
    assert equal_by_proof(text, "March 5, 2024")
    assert not equal_by_proof(text, "March 6, 2024")


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("25/03/2024", "2024-03-25"),
        ("03/25/2024", "2024-03-25"),
        ("05.05.2024", "2024-05-05"),
        ("03/05/2024", None),
        ("2024-13-05", None),
        ("2023-02-29", None),
        ("30 February 2024", None),
        ("March 2024", None),
        ("2024", None),
        ("2024-03/05", None),
    ],
)
def test_what_may_be_two_dates_or_none_is_no_date(text: str, date: str | None) -> None:
    assert iso_date(text) == date


def test_days_and_months_are_not_exchanged() -> None:
    assert not equal_by_proof("03/05/2024", "05/03/2024")
    assert not equal_by_proof("03/05/2024", "March 5, 2024")
    assert equal_by_proof("03/05/2024", "03/05/2024")
