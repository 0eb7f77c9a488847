"""Small Python functions. Each family knows people's usual mistakes with it.

Kinds of mistakes: `operator` (plus for minus), `boundary` (< for <=), `constant` (off by one),
`start` (a wrong start of an accumulator), `order` (two things swapped).
"""

import random
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from assay_shared.types import CallCase
from assay_trainer.data.synthetic.problem import Family, SyntheticProblem

OPERATORS = {"plus": "+", "minus": "-", "times": "*"}
#: In words: the sign, and the one it is mistaken for at the boundary.
COMPARISONS = {
    "greater than": (">", ">="),
    "less than": ("<", "<="),
    "at least": (">=", ">"),
    "at most": ("<=", "<"),
}
_NAME = "solve"


def problem(
    words: str, parameter: str, gold: str, mistakes: Mapping[str, str], inputs: list[JsonValue]
) -> SyntheticProblem:
    """Return a function of one parameter from its body; running it gives the expected values.

    A mistake without effect on any test is left out.
    """
    head = f"def {_NAME}({parameter}):\n"
    expected = _run(head + gold, inputs)
    tests = tuple(
        CallCase(function=_NAME, args=(one,), expected=value)
        for one, value in zip(inputs, expected, strict=True)
    )
    return SyntheticProblem(
        words=f"Write {_NAME}({parameter}). {words}",
        gold=head + gold,
        mistakes={
            kind: head + body
            for kind, body in mistakes.items()
            if _run(head + body, inputs) != expected
        },
        tests=tests,
    )


def _run(text: str, inputs: list[JsonValue]) -> list[JsonValue]:
    """Return the results of the families' own functions."""
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    return [namespace[_NAME](one) for one in inputs]


def _numbers(rng: random.Random, *edges: int) -> JsonValue:
    """Return a list with the edge values, where mistakes show."""
    drawn = [rng.randint(-20, 40) for _ in range(rng.randint(3, 6))] + list(edges)
    rng.shuffle(drawn)
    return list[JsonValue](drawn)


def _operator(rng: random.Random) -> tuple[str, str, str]:
    """Return an operator's word, its sign, and another sign."""
    word = rng.choice(sorted(OPERATORS))
    others = sorted(sign for sign in OPERATORS.values() if sign != OPERATORS[word])
    return word, OPERATORS[word], rng.choice(others)


def _comparison(rng: random.Random) -> tuple[str, str, str]:
    word = rng.choice(sorted(COMPARISONS))
    return word, *COMPARISONS[word]


def two_steps(rng: random.Random) -> SyntheticProblem:
    (word1, sign1, wrong1), (word2, sign2, wrong2) = _operator(rng), _operator(rng)
    a, b = rng.randint(2, 30), rng.randint(2, 30)

    def body(first: str, second: str, b: int) -> str:
        return f"    y = x {first} {a}\n    return y {second} {b}\n"

    return problem(
        f"Return x {word1} {a}, then {word2} {b}.",
        "x",
        body(sign1, sign2, b),
        {
            "operator": body(wrong1, sign2, b),
            "order": body(sign2, sign1, b) if sign1 != sign2 else body(sign1, wrong2, b),
            "constant": body(sign1, sign2, b + 1),
        },
        list(rng.sample(range(-20, 40), 4)),
    )


def sum_if(rng: random.Random) -> SyntheticProblem:
    word, sign, wrong = _comparison(rng)
    a = rng.randint(1, 40)

    def body(sign: str, start: int) -> str:
        return (
            f"    total = {start}\n    for x in xs:\n        if x {sign} {a}:\n"
            "            total += x\n    return total\n"
        )

    return problem(
        f"Return the sum of the numbers in xs that are {word} {a}.",
        "xs",
        body(sign, 0),
        {"boundary": body(wrong, 0), "start": body(sign, 1)},
        [_numbers(rng, a) for _ in range(4)],
    )


def count_if(rng: random.Random) -> SyntheticProblem:
    word, sign, wrong = _comparison(rng)
    a = rng.randint(1, 40)

    def body(sign: str, start: int) -> str:
        return (
            f"    count = {start}\n    for x in xs:\n        if x {sign} {a}:\n"
            "            count += 1\n    return count\n"
        )

    return problem(
        f"Count the numbers in xs that are {word} {a}.",
        "xs",
        body(sign, 0),
        {"boundary": body(wrong, 0), "start": body(sign, 1)},
        [_numbers(rng, a) for _ in range(4)],
    )


def map_each(rng: random.Random) -> SyntheticProblem:
    word, sign, wrong = _operator(rng)
    a = rng.randint(2, 60)

    def body(sign: str, a: int) -> str:
        return f"    return [x {sign} {a} for x in xs]\n"

    return problem(
        f"Return a list with every number in xs {word} {a}.",
        "xs",
        body(sign, a),
        {"operator": body(wrong, a), "constant": body(sign, a + 1)},
        [_numbers(rng) for _ in range(4)],
    )


def keep_if(rng: random.Random) -> SyntheticProblem:
    word, sign, wrong = _comparison(rng)
    a = rng.randint(1, 40)

    def body(sign: str, a: int) -> str:
        return f"    return [x for x in xs if x {sign} {a}]\n"

    return problem(
        f"Keep the numbers in xs that are {word} {a}.",
        "xs",
        body(sign, a),
        {"boundary": body(wrong, a), "constant": body(sign, a + 1)},
        [_numbers(rng, a, a + 1) for _ in range(4)],
    )


def remainder(rng: random.Random) -> SyntheticProblem:
    a = rng.randint(2, 30)
    b = rng.randint(0, a - 1)

    def body(sign: str, b: int) -> str:
        return f"    return x % {a} {sign} {b}\n"

    return problem(
        f"Say whether x divided by {a} leaves {b}.",
        "x",
        body("==", b),
        {"operator": body("!=", b), "constant": body("==", b + 1)},
        [3 * a + b, 5 * a + b, 4 * a + b + 1, rng.randint(0, 60)],
    )


def branch(rng: random.Random) -> SyntheticProblem:
    word, sign, wrong = _comparison(rng)
    word1, sign1, wrong1 = _operator(rng)
    a, b, c = rng.randint(1, 30), rng.randint(2, 30), rng.randint(2, 30)

    def body(sign: str, sign1: str) -> str:
        return f"    if x {sign} {a}:\n        return x {sign1} {b}\n    return {c}\n"

    return problem(
        f"If x is {word} {a}, return x {word1} {b}, otherwise {c}.",
        "x",
        body(sign, sign1),
        {"boundary": body(wrong, sign1), "operator": body(sign, wrong1)},
        [a - 9, a - 1, a, a + 1, a + 7],
    )


def limit(rng: random.Random) -> SyntheticProblem:
    a = rng.randint(0, 40)
    b = a + rng.randint(2, 40)

    def body(outer: str, inner: str, b: int) -> str:
        return f"    return {outer}({a}, {inner}({b}, x))\n"

    return problem(
        f"Limit x to the range {a} to {b}.",
        "x",
        body("max", "min", b),
        {"order": body("min", "max", b), "constant": body("max", "min", b - 1)},
        [a - 3, a, (a + b) // 2, b, b + 5],
    )


def steps(rng: random.Random) -> SyntheticProblem:
    a, b = rng.randint(0, 30), rng.randint(2, 12)

    def body(end: str, a: int) -> str:
        return f"    return list(range({a}, {end}, {b}))\n"

    return problem(
        f"List the numbers from {a} up to n in steps of {b}.",
        "n",
        body("n + 1", a),
        {"boundary": body("n", a), "constant": body("n + 1", a + 1)},
        [a + 2 * b, a + 3 * b, a + rng.randint(5, 30)],
    )


FAMILIES: dict[str, Family] = {
    "branch": branch,
    "count_if": count_if,
    "keep_if": keep_if,
    "limit": limit,
    "map_each": map_each,
    "remainder": remainder,
    "steps": steps,
    "sum_if": sum_if,
    "two_steps": two_steps,
}
