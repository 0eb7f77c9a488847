import pytest

from assay_judge.provider_reference import MissingReference, ReferenceProvider
from assay_shared.types import Label


@pytest.mark.parametrize(
    ("answer", "reference", "correct"),
    [
        ("green", "green", True),
        ("  The Green. ", "green", True),
        ("an apple", "Apple!", True),
        ("green", "red", False),
        ("", "red", False),
        ("42", "42.0", True),
        ("1,000", "1000", True),
        ("$3.50", "3.5", True),
        ("0.5", "1/2", True),
        ("50%", "50", True),
        ("42", "43", False),
        ("answer 42", "42", False),
        ("-7", "7", False),
        ("3.5", "35", False),
        ("42.", "42", True),
        ("9" * 10_000, "1", False),
        ("1/0", "1", False),
    ],
)
async def test_answers_equal_to_the_reference_are_correct(
    answer: str, reference: str, correct: bool
) -> None:
    verdict = await ReferenceProvider("reference").decide("q", answer, reference)
    assert verdict.label is (Label.CORRECT if correct else Label.INCORRECT)
    assert verdict.judge == "reference"


async def test_without_a_reference_it_decides_nothing() -> None:
    with pytest.raises(MissingReference) as raised:
        await ReferenceProvider("reference").decide("q", "a", None)
    assert not raised.value.retryable
