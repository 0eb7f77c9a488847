"""Answers that say the same over and over."""

from pydantic import Field

from assay_reward.verifiers.verifier import AnswerContext, Measurement, Verifier, lightly
from assay_shared.settings.run_file import Config
from assay_shared.types import Status


class RepetitionOptions(Config):
    """How many words in a row are compared."""

    words: int = Field(default=4, ge=1, le=64)


def _repetition(candidate: AnswerContext, options: RepetitionOptions) -> Measurement:
    """1 less the share of repeated n-grams. It says nothing of whether the answer is right."""
    share = repeated_share(candidate.text, options.words)
    return Measurement(1.0 - share, Status.ACCEPTED, f"{share:.0%} repeated")


def repeated_share(text: str, n: int) -> float:
    """Of the n-grams of words, the share that stands there before; 0 where there are none."""
    words = text.casefold().split()
    grams = list(zip(*(words[start:] for start in range(n)), strict=False))
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0


REPETITION = Verifier(_repetition, RepetitionOptions, reads=lightly)
