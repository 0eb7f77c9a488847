"""Comparing formulas with sympy: slow and without a limit; call it through `workers`."""

import logging
import os

from assay_shared.answers.equality import equal_by_proof

#: Equal formulas; each pair makes sympy import and cache what a kind of formula needs, which costs
#: up to 0.7 s of processor time in a process that has not compared this kind before.
_KINDS = (
    (r"\sin^2(x) + \cos^2(x) + 2", "3"),
    (r"\tan(x)", r"\frac{\sin x}{\cos x}"),
    (r"\arctan(1)", r"\frac{\pi}{4}"),
    (r"\frac{\sqrt{3}}{2}", r"\sin(60^\circ)"),
    (r"\log(8) / \log(2)", "3"),
    (r"e^{x + 1}", r"e \cdot e^x"),
    (r"\sum_{k=1}^{10} k", "55"),
    (r"\binom{5}{2}", "10"),
    (r"(x + 1)^2", "x^2 + 2x + 1"),
    (r"|x - 1|", r"|1 - x|"),
    (r"\sqrt[3]{8} + i^2", "1"),
    (r"\begin{pmatrix} 1 & \frac{2}{4} \end{pmatrix}", r"\begin{pmatrix} 1 & 0.5 \end{pmatrix}"),
    (r"x \in (-\infty, 2) \cup [3, \infty)", r"(-\infty, 2) \cup [3, \infty)"),
)


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
    for answer, reference in _KINDS:
        equal(answer, reference)
