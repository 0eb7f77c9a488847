"""Decides without a model: the answer is the reference, normalised, or the same number."""

import re
import string

from assay_shared.errors import JudgeFault
from assay_shared.numbers import parse_number
from assay_shared.types import Label, Verdict

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_DROPPED = str.maketrans("", "", string.punctuation)


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
        return Verdict(
            label=Label.CORRECT if equal(answer, reference) else Label.INCORRECT,
            reason="compared with the reference",
            judge=self.name,
        )


def equal(answer: str, reference: str) -> bool:
    """The same number where the reference is one; else the same words."""
    expected = parse_number(reference)
    if expected is not None:
        return parse_number(answer) == expected
    return normalise(answer) == normalise(reference)


def normalise(text: str) -> str:
    """Lower case without articles, punctuation, extra space (SQuAD's exact match, 1606.05250)."""
    plain = text.casefold().translate(_DROPPED)
    return " ".join(_ARTICLES.sub(" ", plain).split())
