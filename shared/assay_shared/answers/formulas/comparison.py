"""Comparing formulas with sympy: slow and without a limit; call it through `workers`."""

import logging
import os

from assay_shared.answers.equality import equal_by_proof


def equal(answer: str, reference: str) -> bool:
    """Return True if both have the same value."""
    return equal_by_proof(answer, reference)


def freshen() -> None:
    """Compare a formula never parsed by any process before."""
    equal(rf"\frac{{{os.getpid()}x}}{{3}}", r"\frac{x}{2}")


def warm_up() -> None:
    """Fill the caches for comparisons."""
    # math-verify warns of each call without its own alarms: the process has limits from outside.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    for answer in (r"\frac{2x}{4}", r"(1, \sqrt{8}]", r"\{1, 2\}", r"x^2 + 2x + 1", "7"):
        equal(answer, r"\frac{x}{2} + \sqrt{2}")
