"""Repairs of sources: which are made, how they are recorded, and what stays an error."""

import pytest

from assay_reward.workflows.language.problems import InvalidWorkflow
from assay_reward.workflows.language.source import WorkflowForm, form_of
from assay_reward.workflows.repair.edits import RepairKind
from assay_reward.workflows.repair.repair import RepairedWorkflow, repair_source


def repair(source: str) -> RepairedWorkflow:
    return repair_source(source, form_of(source))


PYTHON = """\
def workflow(problem):
    # 日本語 stays, as do comments.
    draft, note = asyncio.gather(self.custom(input=problem, instruction="日本"), Format(
        problem=problem, solution=problem))
    for _ in range(2):
        test = test(problem=problem, solution=draft["response"])
        if test["result"]: votes.append(test["solution"])
        else: last = draft
    return last["response"]
""".replace("", "")

REPAIRED = """\
async def workflow(problem):
    # 日本語 stays, as do comments.
    draft, note = await asyncio.gather(Custom(input=problem, instruction="日本"), Format(
        problem=problem, solution=problem))
    votes = []
    last = {"response": ""}
    for _ in range(2):
        test = await Test(problem=problem, solution=draft["response"])
        if test["result"]: votes.append(test["solution"])
        else: last = draft
    return last["response"]
"""


def test_all_kinds_of_repairs_are_made_at_their_places() -> None:
    repaired = repair(PYTHON)
    assert repaired.source == REPAIRED
    assert repaired.checked.valid
    shown = [
        (one.kind, one.position.line, one.position.column, one.before, one.after.strip())
        for one in repaired.repairs
    ]
    assert shown == [
        (RepairKind.ASYNC, 1, 1, "", "async"),
        (RepairKind.AWAIT, 3, 19, "", "await"),
        (RepairKind.OPERATOR, 3, 34, "self.custom", "Custom"),
        (RepairKind.INITIALISE, 5, 5, "", "votes = []"),
        (RepairKind.INITIALISE, 5, 5, "", 'last = {"response": ""}'),
        (RepairKind.AWAIT, 6, 16, "", "await"),
        (RepairKind.OPERATOR, 6, 16, "test", "Test"),
    ]
    assert repaired.diff().startswith("--- workflow as written\n+++ workflow as repaired\n@@ -1,8")


def test_a_valid_source_is_left_alone() -> None:
    for source in (REPAIRED, "# a note\nreturn   problem"):
        repaired = repair(source)
        assert (repaired.source, repaired.repairs, repaired.diff()) == (source, (), "")
        assert repaired.checked.valid


def test_a_first_value_stands_before_the_block_and_keeps_later_passes() -> None:
    source = 'repeat 3 as i\n  if i == 1\n    x = "b"\n  end\n  y = "{x}"\nend\nreturn "{x}"'
    repaired = repair(source)
    assert repaired.source == f'x = ""\n{source}'
    assert repaired.checked.valid


def test_a_first_value_of_a_branch_stands_inside_it() -> None:
    source = (
        "parallel\n  branch a\n    x = problem\n    if x == problem\n      y = x\n    end\n"
        "    give y\n  end\n  b = problem\nend\nreturn a"
    )
    repaired = repair(source)
    assert repaired.source.splitlines()[3] == '    y = ""'
    assert repaired.checked.valid


FIRST_VALUES = [
    ("x = problem", "return x", 'x = ""'),
    ("x = 3", 'return "{x}"', "x = 0"),
    ("x = problem == problem", 'return "{x}"', "x = false"),
    ("x = [problem]", "x += problem\nreturn problem", "x = []"),
    ("x = AnswerGenerate(input=problem)", "return x.answer", 'x = {answer: "", thought: ""}'),
]


@pytest.mark.parametrize(("binding", "use", "expected"), FIRST_VALUES)
def test_a_first_value_is_the_empty_value_of_the_type(
    binding: str, use: str, expected: str
) -> None:
    repaired = repair(f'if problem == "a"\n  {binding}\nend\n{use}')
    assert repaired.source.splitlines()[0] == expected
    assert repaired.checked.valid


LEFT = [
    ('y = "{x}"\nx = problem\nreturn y', "x is read before it is set"),
    ("parallel\n  a = problem\n  b = a\nend\nreturn b", "a branch that runs at the same time"),
    (
        'if problem == "a"\n  x = problem\nelse if problem == "b"\n  x = []\nend\nreturn "{x}"',
        "x may be unset here",
    ),
    ("return nothing", "there is no nothing"),
    (
        "x = Revisw(problem=problem, solution=problem, feedback=problem)\nreturn problem",
        "there is no operator Revisw",
    ),
    ("x = CustomTest(input=problem)\nreturn problem", "there is no operator CustomTest"),
    ('x = Custom(inpt=problem, instruction="a")\nreturn problem', "no parameter inpt"),
]


@pytest.mark.parametrize(("source", "expected"), LEFT)
def test_what_has_no_plain_fix_stays_an_error(source: str, expected: str) -> None:
    repaired = repair(source)
    assert not repaired.repairs
    assert expected in "\n".join(map(str, repaired.checked.problems))


def test_what_cannot_be_read_cannot_be_repaired() -> None:
    with pytest.raises(InvalidWorkflow, match="line 1, column 1: retrun does not begin a step"):
        repair_source("retrun problem", WorkflowForm.TEXT)


def test_a_repair_cannot_carry_a_source_past_a_limit() -> None:
    body = 'if problem == "a"\nx1=problem\nend\nreturn x1'
    padding = "#" * (16_380 - len(body) - 1)
    with pytest.raises(InvalidWorkflow, match="more than 16384"):
        repair(f"{padding}\n{body}")
