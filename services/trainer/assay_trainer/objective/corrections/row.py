"""What a correction is: a row of the table.

A correction makes the objective decoupled (arXiv 2110.00641, 2505.24298): the ratio is to a
proximal policy, that of the trainer at the step's start, and each token's term has an importance
weight made of w = p_proximal / p_engine. So a clip bounds what the step's own updates do, and the
weight what happened before: other kernels, and older weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay_trainer.objective.sampled import none_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class EngineGap:
    """The tokens of a pack, and how the engine's chances of them differ from the trainer's."""

    #: log p_proximal - log p_engine.
    log_weight_L: "Tensor"
    advantages_L: "Tensor"
    sequence_L: "Tensor"


@dataclass(frozen=True)
class Weights:
    """The importance weight of each token; which are left out, and which are cut to a bound."""

    weights_L: "Tensor"
    masked_L: "Tensor"
    truncated_L: "Tensor"


@dataclass(frozen=True)
class CorrectionRow:
    """A correction: its weights, and its bounds if a run file gives none."""

    name: str
    paper: str
    equation: str
    weigh: Callable[[EngineGap, float, float], Weights]
    #: None means that there is no such bound.
    low: float | None = None
    high: float | None = None


def kept_where(weights_L: "Tensor", kept_L: "Tensor") -> Weights:
    """Return the weights with those of all other tokens 0."""
    return Weights(weights_L.where(kept_L, 0.0), ~kept_L, none_of(weights_L))
