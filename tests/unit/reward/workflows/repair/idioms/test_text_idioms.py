"""Idioms of the text form become the language's own words, inside their lines."""

import time

import pytest

from assay_reward.workflows.language.problems import InvalidWorkflow
from assay_reward.workflows.language.source import WorkflowForm
from assay_reward.workflows.repair.repair import repair_source

FIRST = 'a = Custom(input=problem, instruction="x")\n'
CASES = [
    (
        "a = Custom(problem, 'It\\'s \"x\"')",
        'a = Custom(input=problem, instruction="It\\\'s \\"x\\"")',
    ),
    (
        "a = await Custom(\n  problem,\n  instruction=“x”)",
        FIRST[:-1].replace("(", "(\n  ").replace(", ", ",\n  "),
    ),
    (FIRST + "b = f\"{a['response']}\"", FIRST + 'b = "{a.response}"'),
    (FIRST + 'b = a["response"];', FIRST + "b = a.response"),
    (FIRST + 'b = a.get("response")', FIRST + "b = a.response"),
    (FIRST + 'b = "p: " + a.response + "!"', FIRST + 'b = "p: {a.response}!"'),
    (
        FIRST + "// A note.\nif not a.response:\n  b = problem\n"
        "elif True:\n  b = problem\nelse:\n  b = problem\nend",
        FIRST + '# A note.\nif not a.response != ""\n  b = problem\n'
        "else if true\n  b = problem\nelse\n  b = problem\nend",
    ),
    (
        'l = []\nfor i in range(3):\n  l.append("{i}")\nend',
        'l = []\nrepeat 3 as i\n  l += ["{i}"]\nend',
    ),
    ("ok\u00a0= False", "ok = false"),
]


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_an_idiom_is_rewritten(source: str, expected: str) -> None:
    found = repair_source(f"{source}\nreturn problem", WorkflowForm.TEXT)
    assert found.source == f"{expected}\nreturn problem"
    assert found.checked.problems == ()
    assert {one.kind for one in found.repairs} == {"idiom"}


def test_words_inside_texts_and_names_stay() -> None:
    said = "True: await elif // it's; a + b [0] f(x):"
    source = f'a = Custom(input=problem, instruction="{said}")\nreturn a.response'
    assert repair_source(source, WorkflowForm.TEXT).repairs == ()


def test_a_source_with_too_many_idioms_is_left() -> None:
    source = "a = True\n" * 65 + "return problem"
    with pytest.raises(InvalidWorkflow, match="True is Python"):
        repair_source(source, WorkflowForm.TEXT)


HOSTILE = ["x = " + "problem + " * 1600 + "(", "'\\" * 8000, "“" * 16_000, "Custom(" * 2000]


@pytest.mark.parametrize("source", HOSTILE, ids=range(4))
def test_the_work_grows_with_the_length_alone(source: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidWorkflow):
        repair_source(source, WorkflowForm.TEXT)
    assert time.process_time() - started < 1.0
