"""The sentences in tests' markers."""

import ast
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def sentences(marker: str) -> Counter[str]:
    """Return each sentence of `@pytest.mark.<marker>(sentence)` in all tests, with its count."""
    return Counter(
        str(mark.args[0].value)
        for file in TESTS.rglob("test_*.py")
        for test in ast.walk(ast.parse(file.read_text()))
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef)
        for mark in test.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == f"pytest.mark.{marker}"
        if isinstance(mark.args[0], ast.Constant)
    )
