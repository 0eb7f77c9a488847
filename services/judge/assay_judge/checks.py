"""Checks without a model: each decides the certain cases and leaves the rest open."""

import re
from collections.abc import Awaitable, Callable, Sequence

from assay_judge.config import Check
from assay_shared.answers.equality import NeedsProof, settled
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.answers.question import asked_for
from assay_shared.answers.values.quantity import parse_quantity
from assay_shared.answers.words import same_words
from assay_shared.errors import AssayError
from assay_shared.types import JudgeRequest, Label, Verdict

_CHOICE = re.compile(r"\(?([A-Ja-j])\)?[.:)]?")


class ReferenceChecks:
    """The checks of a configuration, run in order until the first decision."""

    def __init__(self, checks: Sequence[Check], symbolic: Symbolic) -> None:
        self._symbolic = symbolic
        known: dict[str, Callable[[str, str], Awaitable[Label | None]]] = {
            "exact": self._exact,
            "number": self._number,
            "choice": self._choice,
            "symbolic": self._equal_formulas,
        }
        self._checks = [(name, known[name]) for name in checks]

    def close(self) -> None:
        self._symbolic.close()

    async def decide(self, request: JudgeRequest, answer: str) -> Verdict | None:
        """Return the verdict of the first check to decide, or None if all leave it open.

        The verdict's judge is `verifier:` and the check's name.
        """
        if request.reference is None:
            return None
        reference = asked_for(request.reference, request.question, answer)
        for name, check in self._checks:
            label = await check(answer, reference)
            if label is not None:
                return Verdict(label=label, reason=f"by the check {name}", judge=f"verifier:{name}")
        return None

    async def _exact(self, answer: str, reference: str) -> Label | None:
        """Return CORRECT for the same words, numbers and signs, else None.

        An answer in other words may still be right.
        """
        return Label.CORRECT if same_words(answer, reference) else None

    async def _number(self, answer: str, reference: str) -> Label | None:
        """Compare two numbers; return None for a number inside a sentence and for units with no
        conversion between them."""
        given, expected = parse_quantity(answer), parse_quantity(reference)
        if given is None or expected is None:
            return None
        same = given.equals(expected)
        return None if same is None else _label(same)

    async def _choice(self, answer: str, reference: str) -> Label | None:
        """Compare two letters of a multiple choice; return None if there is any other text."""
        given, expected = (_CHOICE.fullmatch(text.strip()) for text in (answer, reference))
        if given is None or expected is None:
            return None
        same = given[1].upper() == expected[1].upper()
        return _label(same)

    async def _equal_formulas(self, answer: str, reference: str) -> Label | None:
        """Return CORRECT for formulas proven equal, else None.

        A missing proof of equality does not prove a difference.
        """
        try:
            same = settled(answer, reference) is True
        except NeedsProof:
            try:
                same = await self._symbolic.equal(answer, reference)
            except AssayError:  # the formula is too hard for the prover, so it stays open
                return None
        return Label.CORRECT if same else None


def _label(same: bool) -> Label:
    return Label.CORRECT if same else Label.INCORRECT
