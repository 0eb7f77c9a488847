"""`+=` adds to a text or to a list, as in the Python form."""

import pytest

from assay_reward.workflows.language.source import WorkflowForm, check_source, read_workflow

PAIRS = [
    ('t = ""\nt += "b{problem}"\nreturn t', 't = ""\nt += f"b{problem}"\nreturn t'),
    (
        'a = Custom(input=problem, instruction="x")\nt = a.response\nt += a.response\nreturn t',
        'a = await Custom(input=problem, instruction="x")\nt = a["response"]\n'
        't += a["response"]\nreturn t',
    ),
    (
        'l = []\nm = l\nm += "b"\nreturn "{problem}"',
        'l = []\nm = l\nm.append("b")\nreturn f"{problem}"',
    ),
    (
        'r = {l: []}\nm = r.l\nm += "b"\nreturn problem',
        'r = {"l": []}\nm = r["l"]\nm.append("b")\nreturn problem',
    ),
]


@pytest.mark.parametrize(("text", "python"), PAIRS)
def test_an_addition_means_the_same_in_both_forms(text: str, python: str) -> None:
    indented = "".join(f"    {line}\n" for line in python.splitlines())
    tree, _ = read_workflow(f"async def workflow(problem):\n{indented}", WorkflowForm.PYTHON)
    assert read_workflow(text, WorkflowForm.TEXT)[0] == tree
    assert check_source(text, WorkflowForm.TEXT).valid
