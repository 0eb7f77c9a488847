from collections import Counter
from pathlib import Path

import pytest

from assay_judge.templates import Templates
from assay_shared.errors import ConfigError, InvalidInput
from assay_shared.types import JudgeForm


def test_each_form_has_a_prompt_and_an_operator_may_add_more(tmp_path: Path) -> None:
    (tmp_path / "binary.strict.txt").write_text('{question} {answer} {{"verdict": ...}}')
    templates = Templates(tmp_path)
    own = {form: templates.find(form, None).digest for form in JudgeForm}
    assert len(set(own.values())) == len(JudgeForm)
    strict = templates.find(JudgeForm.BINARY, "strict")
    assert strict.fill(question="Q", answer="{A}", reference="R") == 'Q {A} {"verdict": ...}'
    assert strict.digest not in own.values()
    with pytest.raises(InvalidInput, match="template: no template 'x' for binary.*strict"):
        templates.find(JudgeForm.BINARY, "x")


@pytest.mark.parametrize("form", JudgeForm)
def test_a_reason_first_prompt_differs_in_the_reply_alone(form: JudgeForm) -> None:
    own = Templates(None).find(form, None)
    first = Templates(None).find(form, "reason_first")
    assert (own.asks_reason_first, first.asks_reason_first) == (False, True)
    *lines, reply = own.text.rstrip().splitlines()
    *same, turned = first.text.rstrip().splitlines()
    assert lines == same
    assert turned.startswith('{{"reason": "one sentence", ')
    assert Counter(turned) == Counter(reply)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("binary.a.txt", "{question}", "lacks {answer}"),
        ("binary.a.txt", "{question} {answer} {grades}", "has {grades}"),
        ("binary.a.txt", "{question} {answer} {", "binary.a.txt: "),
        ("binary.txt", "{question} {answer}", "must be called FORM.NAME.txt"),
        ("yesno.a.txt", "{question} {answer}", "one of the forms binary, graded"),
    ],
)
def test_a_file_that_is_no_template_stops_the_start(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        Templates(tmp_path)
    with pytest.raises(ConfigError, match="no folder"):
        Templates(tmp_path / "none")
