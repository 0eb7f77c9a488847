"""Promises of the README: each is held by the tests that have its marker.

A test holds a promise by `@pytest.mark.promise("the promise's sentence")`. `make test` runs every
such test, however long it takes; this file fails when the last test of a promise is gone.
"""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent

PROMISES = (
    "a failure is never a score",
    "one judge scores a group",
    "each group counts once, whatever is killed",
    "weights are proven to have landed",
    "overload is refused, and no client starves another",
    "evaluation is honest: test data cannot be trained on, and pass@k is unbiased",
    "verdicts equal plain Python's",
    "strangers cannot fool a score",
    "a policy learns over the services",
)


def promises_in(file: Path) -> list[str]:
    """Return the sentences of all `promise` markers in a file of tests."""
    return [
        str(mark.args[0].value)
        for test in ast.walk(ast.parse(file.read_text()))
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef)
        for mark in test.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.promise"
        if isinstance(mark.args[0], ast.Constant)
    ]


def test_each_promise_is_held_by_a_test_and_each_marker_names_a_promise() -> None:
    held = Counter(promise for file in ROOT.rglob("test_*.py") for promise in promises_in(file))
    assert held.keys() == set(PROMISES)
