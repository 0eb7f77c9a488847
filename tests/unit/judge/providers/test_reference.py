import pytest

from assay_judge.forms.forms import ParsedReply, prompts_for
from assay_judge.forms.templates import Templates
from assay_judge.providers.provider import JudgeCall
from assay_judge.providers.reference import MissingReference, ReferenceProvider
from assay_shared.types import JudgeForm, JudgeRequest, Label


@pytest.mark.parametrize(
    ("answer", "reference", "correct"),
    [
        ("green", "green", True),
        ("  The Green. ", "green", True),
        ("an apple", "Apple!", True),
        ("CAFÉ", "café", True),
        ("москва", "Москва", True),
        ("don\u2019t", "don't", True),
        ("5 mg", "5 Mg", False),
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


@pytest.mark.parametrize("reference", ["a", "b", None])
async def test_equal_answers_of_a_pair_tie_whatever_the_reference_is(
    reference: str | None,
) -> None:
    assert (await find_better("a", "a", reference)).value is None


async def test_of_two_other_answers_it_says_nothing() -> None:
    assert (await find_better("a", "b", "b")).value == 1
    with pytest.raises(MissingReference):
        await find_better("a", "b", "c")


async def find_better(one: str, other: str, reference: str | None) -> ParsedReply:
    request = JudgeRequest(
        form=JudgeForm.PAIRWISE, question="q", answers=(one, other), reference=reference
    )
    ask = prompts_for(request, Templates(None).find(request.form, None))[0]
    return await ReferenceProvider("reference").find(request, 0, ask, JudgeCall("", "", 0.0))


async def find(answer: str, reference: str | None, question: str = "q") -> ParsedReply:
    request = JudgeRequest(question=question, answers=(answer,), reference=reference)
    (ask,) = prompts_for(request, Templates(None).find(request.form, None))
    return await ReferenceProvider("reference").find(request, 0, ask, JudgeCall("", "", 0.0))
