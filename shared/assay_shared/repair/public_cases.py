"""The public tests of a task: what a policy may be told of by their inputs and outputs.

A test is public because the task says so, never because of what a program prints: by the check
`public`, by a doctest in the prompt, or as an assertion that stands in the prompt word for word.
"""

import ast
import doctest
import re
from typing import Final

from pydantic import TypeAdapter, ValidationError

from assay_shared.errors import InvalidInput
from assay_shared.types import AssertCase, CallCase, StdinCase, Task, TestCase

_CHECK: Final = "public"
_FIELD: Final = "task.checks.public"
_CASES: TypeAdapter[tuple[TestCase, ...]] = TypeAdapter(tuple[TestCase, ...])
#: Longer prompts are not searched for tests.
_MAX_PROMPT: Final = 100_000
_MAX_CASES: Final = 32
#: The last example ends before the quotes of its docstring.
_QUOTES: Final = re.compile(r"^[ \t]*(?:\"{3}|'{3})", re.MULTILINE)
_PLAIN: Final = (ast.List, ast.Tuple, ast.Dict)


def public_cases(task: Task) -> tuple[TestCase, ...]:
    """Return the public tests of a task, all of one kind; none if the task names none.

    Raises:
        InvalidInput: the check `public` cannot be used; names it.
    """
    if not task.tests:
        return ()
    if _CHECK in task.checks:
        return _checked(task)
    if isinstance(task.tests[0], StdinCase) or len(task.prompt) > _MAX_PROMPT:
        return ()
    found = [*_doctests(task.prompt), *_shown_asserts(task)]
    calls = [case for case in found if isinstance(case, CallCase)]
    return tuple(calls or found)[:_MAX_CASES]


def _checked(task: Task) -> tuple[TestCase, ...]:
    """Return the tests of the check `public`: the first N of the task, or further tests."""
    given = task.checks[_CHECK]
    if isinstance(given, int) and not isinstance(given, bool):
        if not 0 <= given <= len(task.tests):
            raise InvalidInput(
                f"{given} is not a number of the task's {len(task.tests)} tests", field=_FIELD
            )
        return task.tests[:given]
    try:
        found = _CASES.validate_python(given)
    except ValidationError:
        raise InvalidInput(
            "must be the number of the first tests that are public, or a list of tests",
            field=_FIELD,
        ) from None
    if len({case.kind for case in found}) > 1:
        raise InvalidInput("its tests must be of one kind", field=_FIELD)
    return found


def _doctests(prompt: str) -> list[TestCase]:
    """Return the doctests of a prompt that call a function with literals."""
    try:
        examples = doctest.DocTestParser().get_examples(prompt)
    except ValueError:  # not doctests, though they look like some
        return []
    found = (_call(one.source.strip(), _QUOTES.split(one.want)[0].strip()) for one in examples)
    return [case for case in found if case is not None]


def _call(source: str, want: str) -> CallCase | None:
    """Return the call of a source text and its value; None if either is not a literal."""
    try:
        call = ast.parse(source, mode="eval").body
        expected = ast.parse(want, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _case_of(call, expected)


def _case_of(call: ast.expr, expected: ast.expr) -> CallCase | None:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords:
        return None
    try:
        args = [_literal(one) for one in call.args]
        return CallCase.model_validate(
            {"function": call.func.id, "args": args, "expected": _literal(expected)}
        )
    except (ValueError, ValidationError):
        return None


def _literal(node: ast.expr) -> object:
    """Return the value of a literal that JSON has; raises ValueError for any other."""
    value = ast.literal_eval(node)
    if isinstance(value, bool | int | float | str | None):
        return value
    if not isinstance(node, _PLAIN):
        raise ValueError("not a literal of JSON")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("JSON has only texts as keys")
        assert isinstance(node, ast.Dict)
        pairs = zip(value, node.values, strict=True)
        return {key: _literal(item) for key, item in pairs}
    assert isinstance(node, ast.List | ast.Tuple)
    return [_literal(item) for item in node.elts]


def _shown_asserts(task: Task) -> list[TestCase]:
    """Return the test codes of which every statement but imports stands in the prompt."""
    prompt = _lines(task.prompt)
    found: list[TestCase] = []
    for case in task.tests:
        if isinstance(case, AssertCase) and (told := _told(case.code, prompt)) is not None:
            found.append(told)
    return found


def _told(code: str, prompt: str) -> TestCase | None:
    """Return the case of a code that the prompt shows; None if it does not show all of it."""
    try:
        statements = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    own = [one for one in statements if not isinstance(one, ast.Import | ast.ImportFrom)]
    if not any(isinstance(one, ast.Assert) for one in own):
        return None
    if not all(_lines(ast.get_source_segment(code, one) or "?") in prompt for one in own):
        return None
    only = own[0]
    if len(own) == 1 == len(statements) and isinstance(only, ast.Assert):
        return _compared(only) or AssertCase(code=code)
    return AssertCase(code=code)


def _compared(one: ast.Assert) -> CallCase | None:
    """Return an assertion f(literals) == literal as a call, whose value the feedback can show."""
    test = one.test
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return None
    # A tuple and a list are equal in a call, and are not in an assertion.
    if len(test.ops) > 1 or any(isinstance(node, ast.Tuple) for node in ast.walk(test)):
        return None
    return _case_of(test.left, test.comparators[0])


def _lines(text: str) -> str:
    """Return a text's lines without the whitespace around them; a part has to match whole lines."""
    return "\n" + "\n".join(line.strip() for line in text.strip().splitlines()) + "\n"
