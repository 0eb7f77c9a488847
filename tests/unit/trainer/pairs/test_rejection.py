"""Why an answer is worse."""

import pytest

from assay_shared.types import Status
from assay_trainer.pairs.order import ChoiceOrder, ComponentBound, RejectionType
from assay_trainer.pairs.rejection import is_refusal, type_of
from tests.support.evaluations import make_answer, make_sample

ORDER = ChoiceOrder(
    hallucination=(ComponentBound("faithful", "<", 0.5), ComponentBound("grounded", "<=", 2)),
    format_violation=(ComponentBound("form", "<", 1),),
)


@pytest.mark.parametrize(
    ("outcome", "values", "kind"),
    [
        (Status.WRONG_ANSWER, {}, "wrong_answer"),
        (Status.UNGRADABLE, {}, "wrong_answer"),
        (Status.SYNTAX_ERROR, {}, "syntax_error"),
        (Status.COMPILE_ERROR, {}, "syntax_error"),
        (Status.RUNTIME_ERROR, {}, "runtime_error"),
        (Status.TIME_LIMIT, {}, "time_limit"),
        (Status.MEMORY_LIMIT, {}, "other_limit"),
        (Status.SYNTAX_ERROR, {"truncated": True}, "truncated"),
        (Status.WRONG_ANSWER, {"text": "I'm sorry, but I cannot help with that."}, "refusal"),
        (Status.WRONG_ANSWER, {"components": {"json_schema": 0.0}}, "format_violation"),
        (Status.WRONG_ANSWER, {"components": {"form": 0.5}}, "format_violation"),
        (Status.WRONG_ANSWER, {"components": {"faithful": 0.2}}, "hallucination"),
        (Status.WRONG_ANSWER, {"components": {"faithful": 0.5}}, "wrong_answer"),
        (Status.WRONG_ANSWER, {"text": " "}, "format_violation"),
        (Status.ACCEPTED, {"text": "I cannot give more than 4."}, "lower_score"),
    ],
)
def test_a_worse_answer_has_the_first_type_that_fits(
    outcome: Status, values: dict[str, object], kind: str
) -> None:
    assert type_of(make_answer("t", 0, outcome, **values), ORDER) == RejectionType(kind)


def test_a_judges_grade_is_found_by_its_name_alone() -> None:
    details = {"quality": "ungrounded 1, grounded 2, clear 5 by m"}
    bound = ComponentBound.read("grounded<=2", "--hallucination")
    assert bound.value_of(make_sample("t", 0, Status.WRONG_ANSWER, details=details)) == 2
    quoted = {"quality": "grounded 2 of 5 in the answer"}
    assert bound.value_of(make_sample("t", 0, Status.WRONG_ANSWER, details=quoted)) is None


@pytest.mark.parametrize(
    "text",
    [
        "I cannot help with that.",
        "I\u2019m sorry, but I can\u2019t assist with this request.",
        "Unfortunately, I am unable to provide it.",
        "As an AI, I cannot do that.",
    ],
)
def test_refusals_are_found(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "Sorry, a slip: the sum is 4.",
        "def f(x):\n    return x  # I cannot help it",
        "I can help.",
        "",
    ],
)
def test_answers_are_no_refusals(text: str) -> None:
    assert not is_refusal(text)
