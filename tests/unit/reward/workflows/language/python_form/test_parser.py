"""The Python form: AFlow's idioms, its limits, and errors that say what would be right."""

import pytest

from assay_reward.workflows.language.problems import InvalidWorkflow
from assay_reward.workflows.language.python_form.parser import parse_python, read_python
from assay_reward.workflows.language.python_form.printer import python_form
from assay_reward.workflows.language.text_form.parser import parse_text

HEAD = "async def workflow(problem):\n    "

AFLOW = '''\
import asyncio

async def workflow(problem: str) -> str:
    """Vote over three solutions, then review."""
    solutions = []
    for i in range(3):  # self-consistency
        solution = await Custom(input=problem, instruction='Attempt ' + str(i) + """: go.
""")
        solutions.append(solution['response'])
    solutions += [problem]
    best = await ScEnsemble(solutions=solutions, problem=problem)
    async def fix():
        review = await Review(problem=problem, solution=best["response"])
        return await Revise(problem=problem, solution=best.response, feedback=review["feedback"])
    a, b = await asyncio.gather(fix(), Format(problem=problem, solution=f"{best['response']}!"))
    note = a["solution"]
    note += f" {b.solution}"
    for _ in range(2):
        if note == "":
            break
        note = note + "."
    if not "x" in note and note != 'y':
        return note
    elif -1 < 2:
        return note
    return note
'''

SAME = """
solutions = []
repeat 3 as i
  solution = Custom(input=problem, instruction="Attempt {i}: go.\\n")
  solutions += solution.response
end
solutions += problem
best = ScEnsemble(solutions=solutions, problem=problem)
parallel
  branch a
    review = Review(problem=problem, solution=best.response)
    give Revise(problem=problem, solution=best.response, feedback=review.feedback)
  end
  b = Format(problem=problem, solution="{best.response}!")
end
note = a.solution
note = "{note} {b.solution}"
repeat 2 while not note == ""
  note = "{note}."
end
if "x" not in note and note != "y"
  return note
else if -1 < 2
  return note
end
return note
"""


def test_both_forms_of_a_workflow_are_one_tree() -> None:
    tree = parse_python(AFLOW)
    assert tree == parse_text(SAME)
    assert parse_python(python_form(tree)) == tree
    compile(python_form(tree), "workflow", "exec")


def test_missing_words_are_found_and_the_tree_is_read() -> None:
    source = (
        "def workflow(problem):\n    a, b = asyncio.gather(A(x=problem), B())\n    c = C(y=a)\n"
    )
    tree, slips = read_python(source)
    assert [(slip.word, slip.position.line, slip.position.column) for slip in slips] == [
        ("async", 1, 1),
        ("await", 2, 12),
        ("await", 3, 9),
    ]
    assert len(tree.body) == 2


def test_a_column_counts_characters_and_not_bytes() -> None:
    with pytest.raises(InvalidWorkflow, match="line 2, column 27: this is not a name or a field"):
        parse_python(HEAD + 'x = await C(a="日本", b=c[0])')


WRONG = [
    ("x = await Custom(problem)", "line 2, column 22: an argument without its name"),
    ("x = await Custom(**a)", "'*' is not part of the language"),
    ("retrun x", "line 2, column 12: invalid syntax (this is not Python)"),
    ("await Custom(input=a)", "line 2, column 5: this step has no effect"),
    ("x = y[0]", "this is not a name or a field"),
    ('x = y["a"]["b"]', "this is not a name or a field"),
    ("x = y.__class__", "line 2, column 9: __class__ is not a name"),
    ('x = y["__class__"]', "__class__ is not a name"),
    ("x = (await A(b=c))['d']", "this is not a name or a field"),
    ("return await A(b=c)", "a call stands inside another step"),
    ("x = lambda: 3", "line 2, column 9: lambda is not part of the language"),
    ("x = [a for a in b]", "write a loop that appends"),
    ("x = a if b else c", "an if inside a value is not part of the language"),
    ("if a.get('b'):\n        x = y", 'write name["field"]'),
    ("if len(a) > 1:\n        x = y", "lengths are not counted"),
    ("return a['b'], cost", "a tuple is not part of the language (write one value)"),
    ("x = a - 1", "arithmetic is not part of the language"),
    ("x = a + 1", "+ joins texts alone"),
    ('x = f"{a!r}"', "line 2, column 11: a brace that is not part of a hole"),
    ('x = f"{a:>9}"', "a brace that is not part of a hole"),
    ('x = f"{f(a)}"', "a brace that is not part of a hole"),
    ('x = "\\boxed"', "line 2, column 10: \\b is not an escape"),
    ('x = """\n\\x41"""', "line 3, column 1: \\x is not an escape"),
    ('x = "a', "this text is not closed"),
    ('x = b"a"', "b before a text is not part of the language"),
    ("x = 0x10", "0x10 is not a number of the language"),
    ("x = y; z = x", "one step a line"),
    ("x = y = z", "this Assign is not part of the language"),
    ("x: int = 3", "this AnnAssign is not part of the language"),
    ("x = y is None", "compare with == or !="),
    ("try:\n        x = y\n    except E: x = z", "line 2, column 5: try is not part"),
    ("while True:\n        x = y", "write for _ in range(3)"),
    ("for i in y:\n        x = i", "a loop needs its number of passes"),
    ("for i in range(n):\n        x = y", "a loop needs its number of passes"),
    ("for i in range(10**9):\n        x = y", "'*' is not part of the language"),
    ("for i in range(999999999):\n        x = y", "a loop of 999999999 passes"),
    ("for i in range(2):\n        x = y\n    else:\n        x = z", "a loop has no else"),
    ("async def f():\n        return problem\n    return problem", "gather does not follow f"),
    ("async def f(a):\n        return a\n    x, y = await asyncio.gather(f(), f())", "parameters"),
    ("x, y = await asyncio.gather(A())", "1 branches for 2 names"),
    ("x, y = await asyncio.gather(await A(), B())", "await stands inside gather"),
    ("x, y = a, b", "this Assign is not part of the language"),
    ("import os", "this Import is not part of the language"),
    ("@f\n    async def g(): return a", "decorators are not part of the language"),
    ("ｘ = y", "FULLWIDTH LATIN SMALL LETTER X"),
    ("x = not " + "not " * 20 + "y", "too many not in a row"),
    ("x = " + "-" * 1_000 + "1", "too many - in a row"),
    ("x = " + "(" * 100 + "a" + ")" * 100, "brackets nested too deeply"),
    ("x = a" + ".b" * 1_900, "this is not a name or a field"),
    ("if a:\n" + "".join(" " * n + "if a:\n" for n in range(5, 60)) + " " * 60 + "x = y", "deeply"),
]


@pytest.mark.parametrize(("source", "expected"), WRONG)
def test_an_error_says_where_and_what_would_be_right(source: str, expected: str) -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        parse_python(HEAD + source)
    assert expected in str(caught.value)


OUTSIDE = [
    "",
    "x = 3",
    "async def workflow():\n    return a",
    "async def workflow(problem, entry_point):\n    return a",
    "async def workflow(problem=open('x')):\n    return a",
    "async def solve(problem):\n    return a",
    "import os\nasync def workflow(problem):\n    return a",
    "async def workflow(problem):\n    return a\nopen('x')",
]


@pytest.mark.parametrize("source", OUTSIDE)
def test_the_source_is_one_function_of_the_problem(source: str) -> None:
    with pytest.raises(InvalidWorkflow, match=r"write async def workflow\(problem\):"):
        parse_python(source)
