"""Matrices in LaTeX, and their determinants."""

import itertools
import re
from collections.abc import Callable
from fractions import Fraction

from assay_shared.answers.values.quantity import Quantity
from assay_shared.answers.values.values import Formula, Matrix, Ordered, Value

_ENVIRONMENT = re.compile(
    r"\\begin\{(?P<kind>[pbBvV]?matrix|smallmatrix|array)\}(?P<inner>.*)\\end\{(?P=kind)\}",
    re.DOTALL,
)
_COLUMNS = re.compile(r"\s*\{[clr|\s]*\}")
#: The end of a row, with an optional amount of space.
_ROW_END = re.compile(r"\\\\(?:\s*+\[\s*+-?[\d.]++\s*+[a-z]{2}\s*+\])?+")
_BRACKETS = (("(", ")"), ("[", "]"), ("\\{", "\\}"))
#: The most rows of a determinant to compute, of numbers and of formulas.
_MAX_ROWS = 8
_MAX_FORMULA_ROWS = 3


def matrix_of(text: str, value_of: Callable[[str], Value]) -> Value | None:
    """Return the matrix of a plain text, or its determinant: a number or a formula.

    None for any other text, also for a norm: the text does not say what kind of norm.
    """
    if "\\begin{" not in text:
        return None
    is_determinant, inner = _without_brackets(text)
    found = _ENVIRONMENT.fullmatch(inner)
    if found is None or "\\begin{" in found["inner"]:
        return None
    kind = found["kind"]
    has_own = kind in ("pmatrix", "bmatrix", "Bmatrix", "vmatrix", "Vmatrix")
    if kind == "Vmatrix" or (kind == "vmatrix" and inner != text):
        return None
    if has_own and inner != text and not is_determinant:
        return None
    rows = _rows(found["inner"])
    if kind == "vmatrix" or is_determinant:
        return _determinant(rows, value_of)
    return Matrix(tuple(tuple(value_of(cell) for cell in row) for row in rows))


def rows_of(opened: str, items: tuple[Value, ...], closed: str) -> Matrix | None:
    """Return the matrix of rows in square brackets, [[1,2],[3,4]]; None for any other value."""
    if (opened, closed) != ("[", "]"):
        return None
    rows = [
        item.items
        for item in items
        if isinstance(item, Ordered) and (item.opened, item.closed) == ("[", "]")
    ]
    if len(rows) < max(1, len(items)) or len({len(row) for row in rows}) != 1:
        return None
    return Matrix(tuple(rows))


def _without_brackets(text: str) -> tuple[bool, str]:
    """Return True for a determinant, and the text without "det" and without the brackets."""
    is_determinant = text.startswith("\\det")
    text = text.removeprefix("\\det").strip()
    for opened, closed in (*_BRACKETS, ("|", "|")):
        if text.startswith(opened) and text.endswith(closed):
            return is_determinant or opened == "|", text[len(opened) : -len(closed)].strip()
    return is_determinant, text


def _rows(inner: str) -> list[list[str]]:
    inner = _COLUMNS.sub("", inner, count=1) if inner.lstrip().startswith("{") else inner
    return [row.split("&") for row in _ROW_END.split(inner) if row.strip()]


def _determinant(rows: list[list[str]], value_of: Callable[[str], Value]) -> Value | None:
    """Return the determinant of a square matrix; None if it is too large, or not square."""
    size = len(rows)
    if not 1 < size <= _MAX_ROWS or any(len(row) != size for row in rows):
        return None
    cells = [[value_of(cell) for cell in row] for row in rows]
    numbers = [
        [cell.value for cell in row if isinstance(cell, Quantity) and cell.unit is None]
        for row in cells
    ]
    if all(len(row) == size for row in numbers):
        return Quantity(_eliminated(numbers))
    if size > _MAX_FORMULA_ROWS:
        return None
    return Formula(_expanded(rows))


def _eliminated(rows: list[list[Fraction]]) -> Fraction:
    """Return the exact determinant, by Gaussian elimination."""
    product, size = Fraction(1), len(rows)
    rows = [list(row) for row in rows]
    for at in range(size):
        pivot = next((row for row in range(at, size) if rows[row][at]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != at:
            rows[at], rows[pivot] = rows[pivot], rows[at]
            product = -product
        product *= rows[at][at]
        for row in range(at + 1, size):
            factor = rows[row][at] / rows[at][at]
            rows[row] = [a - factor * b for a, b in zip(rows[row], rows[at], strict=True)]
    return product


def _expanded(rows: list[list[str]]) -> str:
    """Return the determinant by Leibniz's formula, as text."""
    terms = []
    for order in itertools.permutations(range(len(rows))):
        swaps = sum(a > b for a, b in itertools.combinations(order, 2))
        product = " \\cdot ".join(f"({rows[at][to].strip()})" for at, to in enumerate(order))
        terms.append(f"{'-' if swaps % 2 else '+'} {product}")
    return " ".join(terms).removeprefix("+ ")
