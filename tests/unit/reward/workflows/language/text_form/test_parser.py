"""The text form: its limits, and errors that say where and what would be right."""

import pytest

from assay_reward.workflows.language.limits import WorkflowLimits
from assay_reward.workflows.language.problems import InvalidWorkflow
from assay_reward.workflows.language.text_form.parser import parse_text
from assay_reward.workflows.language.text_form.printer import text_form

LOOSE = """
# A comment, and more room than the printer leaves.
draft   =   Custom(
    input=problem,   instruction = "Say \\"{ problem }\\" {{once}}.",
)
repeat 3 as i while not not (draft.response == "x" and (true))
  if i >= 1
  break
  else
  if "a" not in draft.response
    y = -0.50
  end
  end
  z = {a: [], b: false}
end
return draft.response"""

CANONICAL = """\
draft = Custom(input=problem, instruction="Say \\"{problem}\\" {{once}}.")
repeat 3 as i while draft.response == "x" and true
  if i >= 1
    break
  else if "a" not in draft.response
    y = -0.5
  end
  z = {a: [], b: false}
end
return draft.response
"""


def test_what_means_the_same_is_printed_the_same() -> None:
    tree = parse_text(LOOSE)
    assert text_form(tree) == CANONICAL
    assert parse_text(CANONICAL) == tree


def test_a_first_break_becomes_the_condition_of_its_loop() -> None:
    with_break = 'repeat 2\nif problem == "a"\nbreak\nend\nx = problem\nend'
    with_condition = 'repeat 2 while not problem == "a"\nx = problem\nend'
    assert parse_text(with_break) == parse_text(with_condition)


WRONG = [
    ("x = Custom(problem)", "line 1, column 12: a value without its name: problem"),
    ("retrun x", "line 1, column 1: retrun does not begin a step (did you mean return?)"),
    ("Custom(input=problem)", "bind the result: name = Custom(...)"),
    ("if a\nb = c", "line 2, column 6: end is missing before the end of the workflow"),
    ("if a\nend", "line 1, column 1: the block of if is empty"),
    ("end", "line 1, column 1: end without a block that it belongs to"),
    ("x = y z", "line 1, column 7: z comes after the end of the step"),
    ("x = await Custom(input=y)", "line 1, column 5: await is Python (leave await out)"),
    ("while x\ny = z\nend", "write repeat NUMBER, or repeat NUMBER while CONDITION"),
    ("x = y\n  def f", "this is Python: read it as the Python form"),
    ("x = f(a=g(b=c))", "line 1, column 9: g(...) stands inside another step"),
    ('x = "\\boxed{{a}}"', "line 1, column 6: \\b is not an escape (write \\\\ for a backslash)"),
    ('x = "{}"', "line 1, column 6: {} is not a hole"),
    ('x = "{a"', "line 1, column 6: a brace without its partner"),
    ('x = "{a.__class__}"', "__class__ is not a name"),
    ('x = "{a.b.c}"', "{a.b.c} is not a hole"),
    ("x = y.__class__", "line 1, column 7: __class__ is not a name"),
    ("x = 'a'", 'texts stand in "double quotes"'),
    ('x = "a', "a text ends on its line"),
    ("x = Сustom(a=b)", "'С' (CYRILLIC CAPITAL LETTER ES) is not part of the language"),
    ("x = a\x00", "line 1, column 6: \\x00 is a control character"),
    ("problem = x", "problem is the task's text"),
    ("class = x", "class is a word of the language"),
    ("x = a < b < c", "two comparisons in a row (join them with and)"),
    ("x = a + b", 'write a text with holes: "{a} {b}"'),
    ("x = 1e300", "numbers are at most 1000000000"),
    ("repeat n\nx = y\nend", "repeat needs its number of passes"),
    ("repeat 17\nx = y\nend", "a loop of 17 passes (from 1 to 16 passes)"),
    ("repeat 0\nx = y\nend", "a loop of 0 passes"),
    ("parallel\na = b\nend", "a parallel step of 1 branches (from 2 to 16 branches)"),
    (
        "parallel\nbranch a\nb = c\nend\nd = e\nend",
        "the last line of a branch is: give value for a",
    ),
    ("x = f(a=b, a=c)", "a is given twice"),
    ("repeat 2\n" * 5 + "x = y\n" + "end\n" * 5, "too many loops inside each other (at most 4)"),
    ("x = " + "(" * 60 + "a" + ")" * 60, "nested too deeply"),
    ("x = " + "not a and (" * 30 + "b" + ")" * 30, "nested too deeply"),
    ("if a\n" * 40 + "x = y\n" + "end\n" * 40, "nested too deeply"),
    ("if a\nx = y\n" + "else if a\nx = y\n" * 40 + "end", "at most 24"),
    ("x = y\n" * 3_000, "the workflow has more than 16384 characters"),
    ("x=y\n" * 1_001, "the workflow has too many words (at most 4000)"),
]


@pytest.mark.parametrize(("source", "expected"), WRONG)
def test_an_error_says_where_and_what_would_be_right(source: str, expected: str) -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        parse_text(source)
    assert expected in str(caught.value)


def test_limits_are_settings() -> None:
    with pytest.raises(InvalidWorkflow, match="more than 3 characters"):
        parse_text("return problem", WorkflowLimits(max_chars=3))
    with pytest.raises(InvalidWorkflow, match="too many parts"):
        parse_text("x = y\nreturn problem", WorkflowLimits(max_nodes=4))


def test_a_sign_of_no_shape_is_named_by_its_number() -> None:
    for sign, said in (("\ufeff", "'\\xfeff'"), ("\u200b", "'\\x200b'")):
        with pytest.raises(InvalidWorkflow) as caught:
            parse_text(f"x {sign} = y")
        assert said in str(caught.value)
        assert "\\\\" not in str(caught.value)
