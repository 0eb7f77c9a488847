"""Hostile requests, made from a seed and a number: the same pair makes the same request."""

import random
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay_sandbox.load.fuzz_fragments import ENDINGS, PRELUDE, PYTHON, Fragment, bash_fragment

_WALL_TIMES_S = (0.5, 1.0, 1.0)
_NAMES = ("o.txt", "a", "*", "[", "d/x", "zz", "-rf", "f1")
#: Size of secret answers. No program knows its secret, so an accepted case was forged.
_SECRET_BITS = 60


@dataclass(frozen=True)
class Attack:
    """A hostile request: its path, its pieces, and the function to make a body of pieces.

    `path` is /v1/execute, /v1/test or /v1/sessions; a session gets a cell for each piece.
    """

    number: int
    path: str
    pieces: tuple[str, ...]
    make_body: Callable[[tuple[str, ...]], dict[str, Any]]

    @property
    def body(self) -> dict[str, Any]:
        return self.make_body(self.pieces)

    def without(self, index: int) -> "Attack":
        """Return the same request without the piece at `index`."""
        pieces = self.pieces[:index] + self.pieces[index + 1 :]
        return Attack(self.number, self.path, pieces, self.make_body)


def attack(seed: int, number: int) -> Attack:
    """Return the hostile request of this number."""
    rng = random.Random(f"{seed}/{number}")
    kind = rng.choices(
        (_execute, _bash, _stdin_cases, _call_cases, _assert_cases, _cells),
        weights=(50, 10, 10, 12, 12, 6),
    )[0]
    return kind(rng, number)


def _pieces(rng: random.Random, at_most: int = 4) -> tuple[str, ...]:
    chosen: list[Fragment] = rng.choices(PYTHON, k=rng.randint(1, at_most))
    texts = [_caught(make(rng), rng.choice(("BaseException", "Exception"))) for make in chosen]
    return (*texts, rng.choice(ENDINGS)(rng))


def _caught(text: str, what: str) -> str:
    return f"try:\n{textwrap.indent(text, '    ')}\nexcept {what}: pass"


def _program(seed: int, pieces: tuple[str, ...]) -> str:
    return "\n".join([PRELUDE.format(seed=seed), *pieces])


def _limits(rng: random.Random) -> dict[str, float]:
    return {
        "cpu_time_s": rng.choice((0.3, 1.0)),
        "wall_time_s": rng.choice(_WALL_TIMES_S),
        "memory_bytes": rng.choice((64, 128, 256)) * 2**20,
        "output_bytes": rng.choice((0, 10_000, 2**20, 2**20, 2**22)),
        "file_bytes": rng.choice((0, 2**20, 2**24)),
        "processes": rng.choice((1, 8, 64)),
    }


def _execute(rng: random.Random, number: int) -> Attack:
    seed, limits = rng.getrandbits(32), _limits(rng)
    more: dict[str, Any] = {"stdin": rng.choice(("", "x\n", "\x00" * 9000))}
    if rng.random() < 0.4:
        more["fetch_files"] = rng.sample(_NAMES, rng.randint(1, 4))
    if rng.random() < 0.2:
        more["files"] = {rng.choice(_NAMES): "eA=="}

    def make_body(pieces: tuple[str, ...]) -> dict[str, Any]:
        return {"code": _program(seed, pieces), "limits": limits} | more

    return Attack(number, "/v1/execute", _pieces(rng), make_body)


def _bash(rng: random.Random, number: int) -> Attack:
    limits = _limits(rng)

    def make_body(pieces: tuple[str, ...]) -> dict[str, Any]:
        body = {"code": "\n".join(pieces), "language": "bash", "limits": limits}
        return body | {"fetch_files": ["o.txt"]}

    pieces = tuple(bash_fragment(rng) for _ in range(rng.randint(1, 4)))
    return Attack(number, "/v1/execute", pieces, make_body)


def _stdin_cases(rng: random.Random, number: int) -> Attack:
    seed, limits, secret = rng.getrandbits(32), _limits(rng), rng.getrandbits(_SECRET_BITS)
    case = {"kind": "stdin", "stdin": "1\n", "expected_stdout": f"{secret}"}
    case["compare"] = rng.choice(("exact", "numbers", "tokens", "loose"))
    cases = [case] * rng.randint(1, 3)

    def make_body(pieces: tuple[str, ...]) -> dict[str, Any]:
        return {"code": _program(seed, pieces), "limits": limits, "cases": cases}

    return Attack(number, "/v1/test", _pieces(rng, 3), make_body)


def _function(pieces: tuple[str, ...], result: str) -> str:
    body = "\n".join([*pieces, f"return {result}"])
    return f"def f(*a):\n{textwrap.indent(body, '    ')}"


_RESULTS = (
    "0", "None", "a", "float('inf')", "float('nan')", "set(i * (2**61 - 1) for i in range(3000))",
    "'%600000000d'", "'x' * 10**6", "10**5000", "(lambda d: d.append(d) or d)([])", "f", "object()",
    "type('E', (int,), {'__eq__': lambda *a: True})()", "b'\\xff'", "'\\ud800'",
    "__import__('functools').reduce(lambda x, _: [x], range(9999), 0)", "{1: {2: {3: f}}}",
)  # fmt: skip


def _call_cases(rng: random.Random, number: int) -> Attack:
    seed, limits, result = rng.getrandbits(32), _limits(rng), rng.choice(_RESULTS)
    expected = rng.getrandbits(_SECRET_BITS)
    case = {"kind": "call", "function": "f", "args": [1], "expected": expected}
    return _of_function(rng, number, seed, limits, result, [case] * rng.randint(1, 3))


def _assert_cases(rng: random.Random, number: int) -> Attack:
    seed, limits, result = rng.getrandbits(32), _limits(rng), rng.choice(_RESULTS)
    secret = rng.getrandbits(_SECRET_BITS)
    text = rng.choice(("assert f(1) == {0}", "assert f(1) == {0}\nassert f(2) == [{0}]"))
    case = {"kind": "assert", "code": text.format(secret)}
    return _of_function(rng, number, seed, limits, result, [case] * rng.randint(1, 3))


def _of_function(
    rng: random.Random,
    number: int,
    seed: int,
    limits: dict[str, float],
    result: str,
    cases: list[dict[str, Any]],
) -> Attack:
    is_inside, hackable = rng.random() < 0.5, rng.random() < 0.5

    def make_body(pieces: tuple[str, ...]) -> dict[str, Any]:
        outer, inner = ((), pieces) if is_inside else (pieces, ())
        code = _program(seed, (_function(inner, result), *outer))
        return {"code": code, "limits": limits, "cases": cases, "hackable": hackable}

    return Attack(number, "/v1/test", _pieces(rng, 3)[: rng.randint(1, 4)], make_body)


def _cells(rng: random.Random, number: int) -> Attack:
    seed, limits = rng.getrandbits(32), _limits(rng)

    def make_body(pieces: tuple[str, ...]) -> dict[str, Any]:
        return {"limits": limits, "cells": [_program(seed, (piece,)) for piece in pieces]}

    return Attack(number, "/v1/sessions", _pieces(rng, 3), make_body)
