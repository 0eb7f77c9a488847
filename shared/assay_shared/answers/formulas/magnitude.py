"""Estimates of the size of a formula's numbers, before any exact computation."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

_MAX_DEPTH = 60
#: Digits of any intermediate number, and the largest exponent of a base without a known value.
_MAX_DIGITS = 20_000
_MAX_EXPONENT = 5_000
_MAX_FACTORIAL = 5_000
_MAX_CHOSEN = 2_000
_TOKEN = re.compile(r"\d+(?:\.\d+)?|\.\d+|\\[A-Za-z]+|\*\*|[A-Za-z]{2,}(?=\()|\S", re.ASCII)
_IS_NUMBER = re.compile(r"\d+(?:\.\d+)?|\.\d+", re.ASCII)
_CLOSING = {"(": ")", "[": "]", "{": "}", "lfloor": "rfloor", "lceil": "rceil"}
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    **{"ln": math.log, "log": math.log, "exp": math.exp, "sqrt": math.sqrt},
    **{"sin": math.sin, "cos": math.cos, "tan": math.tan, "cot": math.tan, "sec": math.cos},
    **{"arctan": math.atan, "arcsin": math.asin, "arccos": math.acos, "csc": math.sin},
    **{"sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh},
}
_GROWING = frozenset(("exp", "sinh", "cosh"))
_CONSTANTS = {"pi": math.pi, "e": math.e}
_IGNORED = frozenset(("|", "$", "left", "right", "displaystyle"))
_OF_PRODUCTS = frozenset(("*", "cdot", "times"))


class TooLargeToCompute(Exception):
    """A number of the formula is too large to compute; the message names it."""


@dataclass(frozen=True, slots=True)
class _Size:
    """A number: its approximate value, None if unknown, and its digits, including a fraction's
    numerator and denominator."""

    value: float | None = None
    digits: float = 1.0


_UNKNOWN = _Size()


def check_magnitude(formula: str) -> None:
    """Check the sizes of the numbers in a plain formula, or in any other text.

    Raises:
        TooLargeToCompute: a power, a factorial or a binomial in it has too many digits.
    """
    reader = _Reader(_TOKEN.findall(formula))
    while reader.has_more():
        reader.sum_to("", 0)
        reader.skip()


class _Reader:
    """A reader of a formula's tokens; unknown tokens get an unknown value."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = [name for token in tokens if (name := token.lstrip("\\")) not in _IGNORED]
        self._place = 0
        self._counters: dict[str, _Size] = {}

    def has_more(self) -> bool:
        return self._place < len(self._tokens)

    def skip(self) -> None:
        self._place += 1

    def _peek(self) -> str:
        return self._tokens[self._place] if self.has_more() else ""

    def _take(self, *tokens: str) -> bool:
        if self._peek() not in tokens or not self.has_more():
            return False
        self._place += 1
        return True

    def sum_to(self, closing: str, depth: int) -> _Size:
        """Return the size of the terms up to a closing bracket, or to the end."""
        if depth > _MAX_DEPTH:
            raise TooLargeToCompute(f"it nests deeper than {_MAX_DEPTH}")
        total = _Size(0.0, 0.0)
        while self.has_more() and self._peek() != closing:
            sign = -1.0 if self._peek() == "-" else 1.0
            self._take("+", "-")
            at = self._place
            term = self._product(depth)
            if self._place == at and self._peek() not in ("+", "-", closing):
                self.skip()  # a comma, a relation, or an unopened bracket
                term = _UNKNOWN
            signed = None if term.value is None else sign * term.value
            total = _Size(
                _both(total.value, signed, float.__add__), max(total.digits, term.digits) + 1
            )
        return total

    def _product(self, depth: int) -> _Size:
        found: _Size | None = None
        while self.has_more():
            divides = self._take("/", "div")
            if divides or self._take(*_OF_PRODUCTS):
                self._take("-")
            factor = self._power(depth)
            if factor is None:
                break
            if found is None:
                found = factor
                continue
            value = _both(found.value, factor.value, _divided if divides else _multiplied)
            found = _checked(_Size(value, found.digits + factor.digits))
        return found or _UNKNOWN

    def _power(self, depth: int) -> _Size | None:
        base = self._atom(depth)
        while base is not None:
            if self._take("^", "**"):
                self._take("-")
                base = _raised(base, self._power(depth + 1) or _UNKNOWN)
            elif self._take("!"):
                base = _factorial(base)
            elif self._take("_"):
                self._atom(depth + 1)
            else:
                break
        return base

    def _atom(self, depth: int) -> _Size | None:
        """Return the size of a bracket, number, letter or command; None for a sign."""
        if depth > _MAX_DEPTH:
            raise TooLargeToCompute(f"it nests deeper than {_MAX_DEPTH}")
        token = self._peek()
        if token in _CLOSING:
            self.skip()
            inner = self.sum_to(_CLOSING[token], depth + 1)
            self._take(_CLOSING[token])
            return inner
        if _IS_NUMBER.fullmatch(token):
            self.skip()
            return _number(token)
        if not token[:1].isalpha() or token in _CLOSING.values():
            return None
        self.skip()
        return self._named(token, depth + 1)

    def _named(self, name: str, depth: int) -> _Size:
        if name == "frac":
            top, bottom = self._argument(depth), self._argument(depth)
            return _Size(_both(top.value, bottom.value, _divided), top.digits + bottom.digits)
        if name == "binom":
            return _binomial(self._argument(depth), self._argument(depth))
        if name in ("sum", "prod"):
            return self._repeated(name, depth)
        if name in _FUNCTIONS:
            return self._function(name, depth)
        if name in self._counters:
            return self._counters[name]
        return _Size(_CONSTANTS.get(name), 0.5 if name in _CONSTANTS else 1.0)

    def _argument(self, depth: int) -> _Size:
        """Return the size of a command's argument: a group, or the first digit of a number."""
        token = self._peek()
        if _IS_NUMBER.fullmatch(token) and len(token) > 1:
            self._tokens[self._place : self._place + 1] = [token[0], token[1:]]
        return self._atom(depth) or _UNKNOWN

    def _function(self, name: str, depth: int) -> _Size:
        root = 2.0
        if name == "sqrt" and self._peek() == "[":
            root = self._argument(depth).value or 2.0
        while self._take("^", "_"):
            self._argument(depth)
        argument = self._power(depth) or _UNKNOWN
        if argument.value is None:
            return argument
        digits = argument.digits + (abs(argument.value) if name in _GROWING else 0.0)
        _checked(_Size(None, digits))
        try:
            value = _FUNCTIONS[name](argument.value)
            value = value ** (2.0 / root) if name == "sqrt" else value
        except (ValueError, OverflowError, ZeroDivisionError, TypeError):
            return _Size(None, digits)
        return _Size(value, digits)

    def _repeated(self, name: str, depth: int) -> _Size:
        """Return the size of a sum or product, its counter being as large as its larger end."""
        counter, ends, begins = "", [], self._place
        if self._take("_"):
            counter = self._tokens[self._place + 1] if self._place + 1 < len(self._tokens) else ""
            low = self._tokens[begins + 4 : begins + 6]
            ends.append(float(low[0]) if low and low[0].isdigit() and len(low[0]) < 300 else 1.0)
            self._argument(depth)
        if self._take("^"):
            ends.append(abs(self._argument(depth).value or 1.0))
        terms = abs(ends[-1] - ends[0]) + 1 if len(ends) == 2 else 1.0
        largest = max(ends, default=1.0)
        before = self._counters.get(counter)
        self._counters[counter] = _Size(largest, math.log10(largest + 1))
        body = self._product(depth)
        self._counters.pop(counter)
        if before is not None:
            self._counters[counter] = before
        if name == "sum":
            value = None if body.value is None else body.value * terms
            return _Size(value, body.digits + math.log10(terms))
        return _checked(_Size(math.inf, body.digits * min(terms, 1000.0)))


def _number(token: str) -> _Size:
    whole, _, digits = token.partition(".")
    length = max(len((whole + digits).lstrip("0")) - 1, len(digits))
    return _Size(float(token[:300]), max(length + 0.5, 0.0) if length else _log(float(token)))


def _log(value: float) -> float:
    return math.log10(max(1.0, abs(value)))


def _checked(size: _Size) -> _Size:
    if size.digits > _MAX_DIGITS:
        raise TooLargeToCompute(f"a number of more than {_MAX_DIGITS} digits")
    return size


def _both(
    one: float | None, other: float | None, combine: Callable[[float, float], float]
) -> float | None:
    if one is None or other is None:
        return None
    try:
        value = combine(one, other)
    except OverflowError:
        return math.inf
    return math.inf if math.isnan(value) else value


def _multiplied(one: float, other: float) -> float:
    return one * other


def _divided(one: float, other: float) -> float:
    return one / other if other else math.inf


def _raised(base: _Size, exponent: _Size) -> _Size:
    if exponent.value is None:
        return _Size(None, base.digits)
    height = abs(exponent.value)
    if base.value is None and height > _MAX_EXPONENT:
        raise TooLargeToCompute(f"a power of more than {_MAX_EXPONENT}")
    digits = base.digits * height if base.digits else 0.0
    if digits > _MAX_DIGITS:
        raise TooLargeToCompute("a power is too high")
    if base.value is None:
        return _Size(None, digits)
    return _Size(_both(abs(base.value), exponent.value, _power_of), digits)


def _power_of(base: float, exponent: float) -> float:
    return float(base**exponent) if base or exponent > 0 else math.inf


def _factorial(size: _Size) -> _Size:
    if size.value is None:
        return _UNKNOWN
    if abs(size.value) > _MAX_FACTORIAL:
        raise TooLargeToCompute(f"a factorial of more than {_MAX_FACTORIAL}")
    value = math.gamma(size.value + 1) if 0 <= size.value < 170 else math.inf
    return _Size(value, max(1.0, abs(size.value) * _log(size.value)))


def _binomial(top: _Size, bottom: _Size) -> _Size:
    if top.value is None or bottom.value is None:
        return _UNKNOWN
    chosen = min(abs(bottom.value), abs(top.value - bottom.value))
    if not chosen <= _MAX_CHOSEN or top.digits > 1000:
        raise TooLargeToCompute(f"a binomial of more than {_MAX_CHOSEN} factors")
    return _Size(math.inf if chosen > 100 else _ways(top.value, chosen), chosen * (top.digits + 1))


def _ways(top: float, chosen: float) -> float:
    try:
        return math.exp(
            math.lgamma(top + 1) - math.lgamma(chosen + 1) - math.lgamma(top - chosen + 1)
        )
    except (ValueError, OverflowError):
        return math.inf
