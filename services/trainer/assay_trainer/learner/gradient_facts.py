"""A step's gradient in figures, from the sums of all packs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import torch

from assay_trainer.learner.objective import LossSums, Objective

#: The sums of `LossSums`, then the sampled and the read tokens.
NUM_SUMS = len(fields(LossSums)) + 2
#: The sums that become means over the sampled tokens.
_MEANS = ("entropy", "kl", "clipped_low", "clipped_high")
#: A smaller square of the spread is the arithmetic's.
_NO_SPREAD = 1e-12


@dataclass(frozen=True)
class GradientFacts:
    """A step's gradient; shares and means are over the sampled tokens of all packs."""

    loss: float
    grad_norm: float
    entropy: float
    kl: float
    clipped_low: float
    clipped_high: float
    #: Tokens that the model read, prompts included, in all updates.
    num_read: int
    #: Share of the KL term in the gradient with respect to the tokens' log-probabilities, by
    #: absolute values; None without such a term.
    kl_gradient_share: float | None = None
    masked_share: float = 0.0
    truncated_weight_share: float = 0.0
    #: Before bounds; None without a correction.
    importance_weight_mean: float | None = None
    #: Coefficient of variation of the tokens' weights in the average.
    token_weight_spread: float | None = None

    @classmethod
    def of(cls, sums: torch.Tensor, grad_norm: float, objective: Objective) -> Self:
        """Return the facts of an update, from its `NUM_SUMS` sums."""
        *values, num_sampled, num_read = sums.tolist()
        found = dict(zip((one.name for one in fields(LossSums)), values, strict=True))
        every = max(1.0, num_sampled)
        gradients = found["policy_gradient"] + found["kl_gradient"]
        return cls(
            loss=found["loss"],
            grad_norm=grad_norm,
            num_read=int(num_read),
            kl_gradient_share=(
                found["kl_gradient"] / gradients if objective.kl_weight and gradients else None
            ),
            masked_share=found["masked"] / every,
            truncated_weight_share=found["truncated"] / every,
            importance_weight_mean=(
                None if objective.correction is None else found["importance"] / every
            ),
            token_weight_spread=_spread(found["weight"], found["weight_squares"], num_sampled),
            **{name: found[name] / every for name in _MEANS},
        )


def over_updates(facts: Sequence[GradientFacts]) -> GradientFacts:
    """Return the means over the updates of a step; the tokens read are summed."""
    means: dict[str, Any] = {}
    for one in fields(GradientFacts):
        values = [getattr(fact, one.name) for fact in facts]
        present = [value for value in values if value is not None]
        means[one.name] = sum(present) / len(present) if present else None
    means["num_read"] = sum(fact.num_read for fact in facts)
    return GradientFacts(**means)


def _spread(total: float, squares: float, number: float) -> float | None:
    """Return the standard deviation over the mean; None without a value."""
    if not number or not total:
        return None
    mean = total / number
    ratio = squares / number / (mean * mean) - 1
    return math.sqrt(ratio) if ratio > _NO_SPREAD else 0.0
