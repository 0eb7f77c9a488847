"""The checker: operators, parameters, fields, types, and the largest cost."""

import pickle
from itertools import pairwise

import pytest

from assay_reward.workflows.language.checker import check_tree
from assay_reward.workflows.language.limits import CostBound, WorkflowLimits
from assay_reward.workflows.language.problems import InvalidWorkflow
from assay_reward.workflows.language.signatures import (
    OperatorParameter,
    OperatorSignature,
    ValueType,
    table_of,
)
from assay_reward.workflows.language.text_form.parser import parse_text

SOLVE = 'a = Custom(input=problem, instruction="Solve.")\n'

WRONG = [
    ("x = Cutsom(input=problem)", "there is no operator Cutsom (did you mean Custom?)"),
    ("x = Zzz(input=problem)", "there are AnswerGenerate, Custom, CustomCodeGenerate,"),
    (
        'x = Custom(input=problem, instruction="a", inputs="b")',
        "no parameter inputs (did you mean in",
    ),
    ("x = Custom(input=problem)", "Custom lacks instruction (it needs input, instruction)"),
    ("x = a.respnse", "a has no field respnse (did you mean response?)"),
    ("x = problem.response", "problem has no fields: it is a text (write the name alone)"),
    ("x = AnswerGenerate(input=a)", "input of AnswerGenerate is a record (response) (name its fie"),
    ("x = AnswerGenerate(input=3)", "is a number (put it into a text, as a hole)"),
    ("x = ScEnsemble(problem=problem, solutions=a.response)", "list of text is needed"),
    ("x = [a.response, 3]", "a list's item is a number"),
    ('x = "so {a}"', "a in a text is a record (response) (name its field: response)"),
    ("x = {y: {z: problem}}", "field y is a record (z)"),
    ("if problem\n  x = problem\nend", "a condition is a text (boolean is needed)"),
    ('if problem < "a"\n  x = problem\nend', "a side of < is a text"),
    ('if problem == 3\n  x = "a"\nend', "a text == a number (compare two texts, two numbers"),
    ('if 3 in problem\n  x = "a"\nend', "the left side of in is a number"),
    ('if "a" in a\n  x = "a"\nend', "the right side of in is a record (response)"),
    ("problems = problem\nproblems += [problem]", "problems is not a list (begin with [])"),
    ("Custom = problem", "Custom is an operator (choose another name)"),
    ("repeat 2 as Test\n  x = problem\nend", "Test is an operator"),
    ("return a", "a workflow's result is a record (response) (name its field: response)"),
    ("parallel\n  x = problem\n  x = a\nend", "two branches give x"),
    (
        "if problem == a.response\n  x = a\nelse\n  x = problem\nend\ny = x",
        None,
    ),
    (
        'if problem == a.response\n  x = a\nelse\n  x = problem\nend\ny = "{x}"',
        "x in a text is of different types on different paths",
    ),
    (
        "repeat 2\n  y = a.response\n  a = AnswerGenerate(input=problem)\nend",
        "line 3, column 7: a has no fields: it is of different types on different paths",
    ),
]


@pytest.mark.parametrize(("source", "expected"), WRONG)
def test_a_problem_says_what_would_be_right(source: str, expected: str | None) -> None:
    end = "" if source.startswith("return") else "\nreturn problem"
    found = check_tree(parse_text(f"{SOLVE}{source}{end}")).problems
    assert [str(one) for one in found if expected and expected in str(one)] == list(map(str, found))
    assert bool(found) == bool(expected)


def test_a_name_may_be_bound_to_another_kind_of_result() -> None:
    """AFlow's workflows do so; where paths join, the fields that both results share remain."""
    source = (
        f"{SOLVE}a = Format(problem=problem, solution=a.response)\n"
        "if a.solution == problem\n"
        "  a = Test(problem=problem, solution=a.solution)\nend\nreturn a.solution"
    )
    assert check_tree(parse_text(source)).valid
    problem = check_tree(parse_text(source.replace("return a.solution", 'return "{a.result}"')))
    assert "a has no field result" in str(problem.problems[0])


def test_the_largest_cost_counts_loops_branches_and_the_dearer_side() -> None:
    source = (
        f"{SOLVE}repeat 3\n  if problem == a.response\n    b = Programmer(problem=problem)\n"
        '  else\n    c = Custom(input=problem, instruction="a")\n'
        '    d = Custom(input=problem, instruction="a")\n  end\nend\n'
        "parallel\n  x = AnswerGenerate(input=problem)\n  branch y\n"
        "    z = MdEnsemble(problem=problem, solutions=[])\n    give z.solution\n  end\nend\n"
        "return a.response"
    )
    checked = check_tree(parse_text(source))
    assert checked.valid
    # Steps: 4, 3 passes of an if with at most 2 steps, 2 branches, 1 step in a branch.
    assert checked.bound == CostBound(steps=16, operator_calls=9, model_calls=16)


def test_a_workflow_that_may_cost_too_much_is_refused() -> None:
    loops = "repeat 16\n" * 2 + SOLVE + "end\n" * 2 + "return problem"
    problems = [str(one) for one in check_tree(parse_text(loops)).problems]
    assert problems == [
        "line 1, column 1: a run may make 256 operator calls (at most 64: fewer passes or steps)"
    ]
    idle = "repeat 16\n" * 3 + "x = problem\n" + "end\n" * 3 + "return problem"
    assert "4370 steps" in str(check_tree(parse_text(idle)).problems[0])
    roomy = WorkflowLimits(max_operator_calls=256)
    assert check_tree(parse_text(loops), limits=roomy).valid


def test_operators_are_a_table() -> None:
    tool = OperatorSignature(
        "Weather",
        {"days": OperatorParameter(ValueType.NUMBER, required=False)},
        {"warm": ValueType.BOOLEAN, "degrees": ValueType.NUMBER},
        model_calls=0,
    )
    source = (
        'w = Weather(days=3)\nif w.warm and w.degrees > 20.5\n  return "go"\nend\nreturn problem'
    )
    checked = check_tree(parse_text(source), table_of([tool]))
    assert checked.valid
    assert checked.bound == CostBound(steps=4, operator_calls=1)
    assert not check_tree(parse_text(source)).valid


def test_types_that_do_not_settle_end_in_a_problem() -> None:
    """A chain of assignments loses one type a pass; without a bound this would take minutes."""
    names = [f"n{number}" for number in range(400)]
    chain = "".join(f"{one} = {two}\n" for one, two in pairwise(names))
    first = f"n0 = {chr(34)}{chr(34)}\n" + "".join(f"{name} = n0\n" for name in names[1:])
    loops = "repeat 2\n" * 3 + chain + "n399 = 3\n" + "end\n" * 3
    found = check_tree(parse_text(f"{first}{loops}return problem")).problems
    assert any("types in the loops do not settle" in str(one) for one in found)


def test_all_problems_are_told_and_travel() -> None:
    checked = check_tree(parse_text("x = A(b=c)\ny = D(e=f)"))
    with pytest.raises(InvalidWorkflow) as caught:
        checked.or_refuse()
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == checked.problems
    assert len(str(again).splitlines()) == len(checked.problems) == 5
    assert len(check_tree(parse_text("x = A(b=c)\n" * 300)).problems) == 20
