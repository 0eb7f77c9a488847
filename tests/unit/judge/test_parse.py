import pytest

from assay_judge.parse import parse_reply
from assay_shared.errors import JudgeFault
from assay_shared.types import Label


@pytest.mark.parametrize(
    ("content", "label"),
    [
        ('{"verdict": "CORRECT", "reason": "same value"}', Label.CORRECT),
        ('  {"verdict": "INCORRECT"}\n', Label.INCORRECT),
        ('```json\n{"verdict": "UNSURE", "confidence": 0.4}\n```', Label.UNSURE),
    ],
)
def test_the_object_that_was_asked_for_is_a_verdict(content: str, label: Label) -> None:
    assert parse_reply(content, "stop").verdict is label


@pytest.mark.parametrize(
    ("content", "finish_reason", "message"),
    [
        (None, "stop", "an empty reply .finish_reason stop"),
        ("  \n", "length", "an empty reply .finish_reason length"),
        ('{"verdict": "CORRECT"', "length", "cut off at its token limit"),
        ('{"verdict": "CORRECT", "reason": "x"}', "length", "cut off"),
        ('{"verdict": "CORRECT"', "stop", "not a verdict"),
        ("CORRECT", "stop", "not a verdict"),
        ("The answer is CORRECT because INCORRECT would be wrong.", "stop", "not a verdict"),
        ('{"verdict": "correct"}', "stop", "not a verdict"),
        ('{"verdict": true}', "stop", "not a verdict"),
        ('[{"verdict": "CORRECT"}]', "stop", "not a verdict"),
        ('{"verdict": "CORRECT"} {"verdict": "INCORRECT"}', "stop", "not a verdict"),
        ('Sure! {"verdict": "CORRECT"}', "stop", "not a verdict"),
    ],
)
def test_anything_else_is_a_failure_and_never_a_verdict(
    content: str | None, finish_reason: str, message: str
) -> None:
    with pytest.raises(JudgeFault, match=message):
        parse_reply(content, finish_reason)
