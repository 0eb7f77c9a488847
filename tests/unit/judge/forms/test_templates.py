from pathlib import Path

import pytest

from assay_judge.forms.templates import REASONED, Templates
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
def test_each_form_has_a_prompt_that_asks_for_the_reason_first(form: JudgeForm) -> None:
    own, reasoned = (Templates(None).find(form, name) for name in (None, REASONED))
    assert (own.asks_reason_first, reasoned.asks_reason_first) == (False, True)
    question = own.text.partition("<question>")[2].partition("Reply with")[0]
    assert question.splitlines()[:5] == reasoned.text.partition("<question>")[2].splitlines()[:5]


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
    with pytest.raises(ConfigError, match="is not a folder"):
        Templates(tmp_path / "none")
