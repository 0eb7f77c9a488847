"""Decides without a model: the answer is the reference, normalised, or the same number."""

import re
import string
from fractions import Fraction

from assay_shared.errors import JudgeFault
from assay_shared.types import Label, Verdict

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_DROPPED = str.maketrans("", "", string.punctuation)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:/[1-9]\d*)?")
_MAX_DIGITS = 100


class MissingReference(JudgeFault):
    """There is nothing to compare with: asking again cannot help."""

    retryable = False


class ReferenceProvider:
    """Implements `assay_judge.provider.Provider`. Deterministic; knows no paraphrase."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def decide(self, question: str, answer: str, reference: str | None) -> Verdict:
        if reference is None:
            raise MissingReference("there is no reference to compare with")
        equal = normalise(answer) == normalise(reference) or same_number(answer, reference)
        return Verdict(
            label=Label.CORRECT if equal else Label.INCORRECT,
            reason="compared with the reference",
            judge=self.name,
        )


def normalise(text: str) -> str:
    """Lower case without articles, punctuation, extra space (SQuAD's exact match, 1606.05250)."""
    plain = text.casefold().translate(_DROPPED)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def same_number(one: str, other: str) -> bool:
    first, second = number(one), number(other)
    return first is not None and first == second


def number(text: str) -> Fraction | None:
    """The exact value of a text that is one number, with separators, currency or percent signs."""
    plain = text.strip().strip("$€£").replace(",", "").removesuffix("%").strip()
    if len(plain) > _MAX_DIGITS or not _NUMBER.fullmatch(plain):
        return None
    return Fraction(plain.lstrip("+"))
