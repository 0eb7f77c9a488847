"""Questions with a number for an answer; a verifier compares values.

Kinds of mistakes: `constant` (off by one), `carry` (a ten too few), `order` (the other number).
"""

import random

from assay_trainer.data.synthetic.problem import Family, SyntheticProblem


def larger(rng: random.Random) -> SyntheticProblem:
    a, b = rng.sample(range(10, 100), 2)
    return SyntheticProblem(
        # The last number is neither: a copy of the question must not be right.
        words=f"Which is larger, {a} or {b}? Write 1 number.",
        gold=str(max(a, b)),
        mistakes={"order": str(min(a, b)), "constant": str(max(a, b) + 1)},
    )


def add_tens(rng: random.Random) -> SyntheticProblem:
    a, tens = rng.randint(1, 49), rng.choice((10, 20, 30, 40, 50))
    return SyntheticProblem(
        words=f"What is {a} plus {tens}?",
        gold=str(a + tens),
        mistakes={"carry": str(a + tens - 10), "constant": str(a + tens + 1)},
    )


FAMILIES: dict[str, Family] = {"add_tens": add_tens, "larger": larger}
