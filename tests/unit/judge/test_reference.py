import pytest

from assay_judge.forms import Finding, asks_of
from assay_judge.provider import Asking
from assay_judge.provider_reference import MissingReference, ReferenceProvider
from assay_judge.templates import Templates
from assay_shared.types import JudgeRequest, Label


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
        ("50%", "50", False),
        ("50%", "0.5", True),
        ("50", "50%", True),
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
    finding = await find(answer, reference)
    assert finding.value is (Label.CORRECT if correct else Label.INCORRECT)


async def test_a_percent_sign_is_correct_where_the_question_asks_for_it() -> None:
    asked = await find("75%", "75", "What percentage is left?")
    assert asked.value is Label.CORRECT
    other = await find("75%", "75", "How many are left?")
    assert other.value is Label.INCORRECT


async def test_without_a_reference_it_decides_nothing() -> None:
    with pytest.raises(MissingReference) as raised:
        await find("a", None)
    assert not raised.value.retryable


async def find(answer: str, reference: str | None, question: str = "q") -> Finding:
    request = JudgeRequest(question=question, answers=(answer,), reference=reference)
    (ask,) = asks_of(request, Templates(None).find(request.form, None))
    return await ReferenceProvider("reference").find(request, 0, ask, Asking("", "", 0.0))
