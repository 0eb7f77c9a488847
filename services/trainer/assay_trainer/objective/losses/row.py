"""What a loss is: a row of the table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay_trainer.objective.sampled import Sampled, none_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class LossBounds:
    """The settings that a loss may read; `LossRow.reads` says which of them it does."""

    clip_low: float
    clip_high: float
    #: The greatest ratio of a token with a negative advantage (dual clip, arXiv 1912.09729).
    dual_clip: float | None
    policy_weight: float
    distance_weight: float


@dataclass(frozen=True)
class LossTerms:
    """The term of each token, and which tokens a bound leaves without a gradient."""

    terms_L: "Tensor"
    low_L: "Tensor"
    high_L: "Tensor"


@dataclass(frozen=True)
class LossRow:
    """A loss: its term, its own average, and the settings that it reads."""

    name: str
    paper: str
    equation: str
    average: str
    #: Fields of `LossBounds`.
    reads: frozenset[str]
    terms: Callable[[Sampled, LossBounds], LossTerms]
    #: Whether a run that learns from old tokens gets a correction if its file says nothing.
    is_corrected: bool = True


def unbounded(terms_L: "Tensor") -> LossTerms:
    """Return the terms of a loss without bounds."""
    return LossTerms(terms_L, none_of(terms_L), none_of(terms_L))
