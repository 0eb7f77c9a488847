"""Equality of two formulas in LaTeX, by sympy and math-verify: slow, and without a limit."""

import random
import re
from functools import lru_cache
from typing import Any

_DIGITS = 60
#: Errors of sympy for formulas it cannot compute: they are not proven equal.
_UNPROVABLE = (ArithmeticError, ValueError, TypeError, NotImplementedError, RecursionError)


def proven(first: str, second: str, but_for_a_factor: bool) -> bool:
    """Return True if two formulas are proven equal.

    Numbers are compared first, and tell almost all unequal formulas apart; then math-verify.
    """
    is_real = not re.search(r"(?<![A-Za-z\\])i(?![A-Za-z])", f"{first} {second}")
    try:
        one, other = _parsed(first, is_real), _parsed(second, is_real)
    except Exception:  # noqa: BLE001  # the parser raises plain exceptions for unreadable text
        return False
    if r"\sum" in first + second or r"\prod" in first + second:
        one, other = _written_out(one), _written_out(other)
    try:
        return _proportional(one, other) if but_for_a_factor else _equal(one, other)
    except _UNPROVABLE:
        return False


def _equal(one: Any, other: Any) -> bool:
    from math_verify import verify

    exact = _rational(one), _rational(other)
    if None not in exact:
        return bool(exact[0] == exact[1])
    if not _agree(one, other):
        return False
    # math-verify's own alarms are off: the process has a limit from outside.
    return bool(
        verify(one, other, float_rounding=_DIGITS, numeric_precision=_DIGITS, timeout_seconds=None)
    )


@lru_cache(maxsize=256)
def _parsed(text: str, is_real: bool) -> Any:
    """Return sympy's formula; cached, because each item of a set is compared several times."""
    from latex2sympy2_extended.latex2sympy2 import latex2sympy

    return latex2sympy(text, is_real=is_real, convert_degrees=False, normalization_config=None)


def _written_out(formula: Any) -> Any:
    """Return a formula with each sum and each product written out."""
    from sympy import Add, Mul, Product, Sum

    def terms(repeated: Any) -> Any:
        ((counter, low, high),) = repeated.limits
        parts = [repeated.function.subs(counter, at) for at in range(int(low), int(high) + 1)]
        return (Add if isinstance(repeated, Sum) else Mul)(*parts)

    return formula.replace(lambda part: isinstance(part, Sum | Product), terms)


def _proportional(one: Any, other: Any) -> bool:
    """Return True if two polynomials differ only by a rational factor other than zero."""
    symbols = sorted(one.free_symbols | other.free_symbols, key=str)
    if not symbols or not (one.is_polynomial(*symbols) and other.is_polynomial(*symbols)):
        return False
    generator = random.Random(1)
    point = {symbol: _point(generator) for symbol in symbols}
    values = one.subs(point), other.subs(point)
    if not all(value.is_Rational and value != 0 for value in values):
        return False
    return bool((one * values[1] - other * values[0]).expand() == 0)


def _rational(formula: Any) -> Any:
    """Return the exact value of a rational number; None for any other formula."""
    value = formula.doit() if not formula.free_symbols else formula
    return value if value.is_Rational else None


def _agree(one: Any, other: Any) -> bool:
    """Return True if both have the same values, to many digits, at points with finite values."""
    generator = random.Random(1)
    symbols = sorted(one.free_symbols | other.free_symbols, key=str)
    compared = 0
    for _ in range(4 if symbols else 1):
        point = {symbol: _point(generator) for symbol in symbols}
        values = [formula.subs(point).evalf(_DIGITS) for formula in (one, other)]
        if not all(value.is_number and value.is_finite for value in values):
            continue
        scale = max(abs(values[0]), abs(values[1]))
        if abs(values[0] - values[1]) > scale * 10 ** -(_DIGITS // 2):
            return False
        compared += 1
    return compared > 0


def _point(generator: random.Random) -> Any:
    from sympy import Rational

    return Rational(generator.randint(-4000, 4000) or 1, 1009)
