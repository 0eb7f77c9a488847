"""Equality of two formulas in LaTeX, by sympy and math-verify: slow, and without a limit."""

import random
import re
from functools import lru_cache
from typing import Any

_DIGITS = 60
#: What sympy raises about formulas that it cannot compute: they are not proven equal.
_UNPROVABLE = (ArithmeticError, ValueError, TypeError, NotImplementedError, RecursionError)


def proven(first: str, second: str, but_for_a_factor: bool) -> bool:
    """First by numbers, which tells almost all that differ, then by math-verify."""
    is_real = not re.search(r"(?<![A-Za-z\\])i(?![A-Za-z])", f"{first} {second}")
    try:
        one, other = _parsed(first, is_real), _parsed(second, is_real)
    except Exception:  # noqa: BLE001  # the parser raises no other for what it cannot read
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
    # Its own alarms are off: the process has a limit from outside.
    return bool(
        verify(one, other, float_rounding=_DIGITS, numeric_precision=_DIGITS, timeout_seconds=None)
    )


@lru_cache(maxsize=256)
def _parsed(text: str, is_real: bool) -> Any:
    """The formula of sympy's; kept, since each item of a set is compared with several."""
    from latex2sympy2_extended.latex2sympy2 import latex2sympy

    return latex2sympy(text, is_real=is_real, convert_degrees=False, normalization_config=None)


def _written_out(formula: Any) -> Any:
    """With the terms of each sum, and the factors of each product."""
    from sympy import Add, Mul, Product, Sum

    def terms(repeated: Any) -> Any:
        ((counter, low, high),) = repeated.limits
        parts = [repeated.function.subs(counter, at) for at in range(int(low), int(high) + 1)]
        return (Add if isinstance(repeated, Sum) else Mul)(*parts)

    return formula.replace(lambda part: isinstance(part, Sum | Product), terms)


def _proportional(one: Any, other: Any) -> bool:
    """Whether one polynomial is the other times a rational number that is not zero."""
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
    """The exact value of a formula that is a rational number; else None."""
    value = formula.doit() if not formula.free_symbols else formula
    return value if value.is_Rational else None


def _agree(one: Any, other: Any) -> bool:
    """Whether both have the same values, to many digits, wherever both have one."""
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
