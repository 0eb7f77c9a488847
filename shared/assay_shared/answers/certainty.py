"""Answers that are certainly the same, decided at once and without a worker process."""

from assay_shared.answers.equality import NeedsProof, settled
from assay_shared.answers.words import same_words


def certainly_same(answer: str, reference: str) -> bool:
    """Return True if both have the same words, or the same value without a proof by sympy."""
    try:
        return same_words(answer, reference) or settled(answer, reference) is True
    except NeedsProof:
        return False
