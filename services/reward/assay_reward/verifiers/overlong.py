"""Answers close to their token limit (DAPO's soft overlong punishment, arXiv 2503.14476)."""

from typing import Self

from pydantic import Field, model_validator

from assay_reward.verifiers.verifier import AnswerContext, Measurement, ValueRange, Verifier
from assay_shared.settings.run_file import Config
from assay_shared.types import Status


class OverlongOptions(Config):
    """L_max and L_cache of the paper, in tokens; the paper uses 20480 and 4096."""

    max_tokens: int = Field(gt=0)
    buffer_tokens: int = Field(gt=0)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.buffer_tokens > self.max_tokens:
            raise ValueError("buffer_tokens must be at most max_tokens")
        return self


def _overlong(candidate: AnswerContext, options: OverlongOptions) -> Measurement:
    """Return the punishment; right and wrong answers are treated alike."""
    value = soft_overlong(candidate.num_tokens, options.max_tokens, options.buffer_tokens)
    return Measurement(value, Status.ACCEPTED, f"{candidate.num_tokens} tokens")


def soft_overlong(num_tokens: int, max_tokens: int, buffer_tokens: int) -> float:
    """Return the punishment of equation 13.

    It is 0 up to L_max - L_cache, then ((L_max - L_cache) - |y|) / L_cache, then -1.
    """
    expected = max_tokens - buffer_tokens
    if num_tokens <= expected:
        return 0.0
    return max((expected - num_tokens) / buffer_tokens, -1.0)


OVERLONG = Verifier(
    _overlong, OverlongOptions, span=lambda _: ValueRange(-1.0, 0.0), needs_lengths=True
)
