"""Answers with repeated passages."""

from pydantic import Field

from assay_reward.verifiers.verifier import AnswerContext, Measurement, Verifier, lightly
from assay_shared.settings.run_file import Config
from assay_shared.types import Status


class RepetitionOptions(Config):
    """The number of words in an n-gram."""

    words: int = Field(default=4, ge=1, le=64)


def _repetition(candidate: AnswerContext, options: RepetitionOptions) -> Measurement:
    """Return 1 minus the share of repeated n-grams, for right and wrong answers alike."""
    share = repeated_share(candidate.text, options.words)
    return Measurement(1.0 - share, Status.ACCEPTED, f"{share:.0%} repeated")


def repeated_share(text: str, n: int) -> float:
    """Return the share of word n-grams already seen in the text; 0 for a text without n-grams."""
    words = text.casefold().split()
    grams = list(zip(*(words[start:] for start in range(n)), strict=False))
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0


REPETITION = Verifier(_repetition, RepetitionOptions, reads=lightly)
