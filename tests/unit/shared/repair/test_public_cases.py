"""Which tests are public."""

import pytest

from assay_shared.errors import InvalidInput
from assay_shared.repair.public_cases import public_cases
from assay_shared.types import AssertCase, CallCase, StdinCase, Task
from tests.support.fakes import make_task

HIDDEN = AssertCase(code="assert f(7919) == 15838")


def asserting(prompt: str, *codes: str) -> Task:
    return make_task(prompt=prompt, tests=tuple(AssertCase(code=one) for one in codes))


def test_a_doctest_of_the_prompt_is_public() -> None:
    prompt = 'def f(x):\n    """Double.\n\n    >>> f(2)\n    4\n    >>> f([])\n    []\n    """\n'
    assert public_cases(make_task(prompt=prompt, tests=(HIDDEN,))) == (
        CallCase(function="f", args=(2,), expected=4),
        CallCase(function="f", args=([],), expected=[]),
    )


@pytest.mark.parametrize(
    "example", ["f(x)\n    4", "f(2).g\n    4", "f(k=2)\n    4", "f(2)\n    {4}", "f(b'2')\n    4"]
)
def test_a_doctest_without_plain_values_is_left_out(example: str) -> None:
    assert public_cases(make_task(prompt=f"    >>> {example}\n", tests=(HIDDEN,))) == ()


def test_an_assertion_in_the_prompt_is_public() -> None:
    shown = "assert f(2) == 4"
    assert public_cases(asserting(f"Write f.\n{shown}\n", shown, HIDDEN.code)) == (
        CallCase(function="f", args=(2,), expected=4),
    )


def test_a_line_that_merely_begins_like_an_assertion_shows_nothing() -> None:
    assert public_cases(asserting("assert f(2) == 45", "assert f(2) == 4")) == ()


def test_a_code_with_a_hidden_statement_is_hidden() -> None:
    shown = "assert f(2) == 4"
    assert public_cases(asserting(shown, f"secret = 7919\n{shown}")) == ()
    assert public_cases(asserting(shown, f"import math\n{shown}")) == (
        AssertCase(code=f"import math\n{shown}"),
    )
    assert public_cases(asserting(shown, f"def check():\n    {shown}\ncheck()")) == ()


def test_an_assertion_on_tuples_stays_an_assertion() -> None:
    shown = "assert f(2) == (1, 2)"
    assert public_cases(asserting(shown, shown)) == (AssertCase(code=shown),)


def test_the_check_names_the_first_tests_or_tests_of_its_own() -> None:
    cases = tuple(StdinCase(stdin=f"{x}", expected_stdout=f"{x}") for x in range(3))
    assert public_cases(make_task(tests=cases)) == ()
    assert public_cases(make_task(tests=cases, checks={"public": 2})) == cases[:2]
    own = [{"kind": "stdin", "stdin": "9", "expected_stdout": "9"}]
    assert public_cases(make_task(tests=cases, checks={"public": own})) == (
        StdinCase(stdin="9", expected_stdout="9"),
    )


@pytest.mark.parametrize("given", [4, -1, True, "2", [{"kind": "stdin"}], {"first": 2}])
def test_a_check_that_cannot_be_used_is_named(given: object) -> None:
    cases = tuple(StdinCase(stdin=f"{x}", expected_stdout=f"{x}") for x in range(3))
    with pytest.raises(InvalidInput, match="task.checks.public"):
        public_cases(make_task(tests=cases, checks={"public": given}))


def test_a_task_without_tests_has_no_public_ones() -> None:
    assert public_cases(make_task(tests=(), checks={"public": 1})) == ()
