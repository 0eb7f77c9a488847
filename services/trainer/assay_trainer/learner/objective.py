"""The objective of GRPO: a sum over sampled tokens of a weight times a term.

term = importance weight * (term of the loss + kl_weight * KL) - entropy_weight * entropy

`assay_trainer.objective` is the menu: losses, corrections, averages and estimators of the KL, with
papers and equations. The weights of tokens are made for a whole step, so the cut into packs changes
nothing. Shapes: S sequences, L sampled tokens of a pack, one sequence after another.

The ratio r of a token is p / p_old. Without a correction, p_old is the engine that sampled it, in
all updates of a step, as in PPO. With one, p_old is the proximal policy: the trainer's own, in the
forward pass of the step's first update. The importance weight is then made of p_old / p_engine, and
stays the same for all updates of the step. So with a correction and one update r is 1, its gradient
that of the log-probability, and a clip never acts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import torch

from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.objective.averages import AVERAGES, AverageRow
from assay_trainer.objective.corrections.row import CorrectionRow, EngineGap, Weights
from assay_trainer.objective.corrections.table import CORRECTIONS
from assay_trainer.objective.kl import ESTIMATORS, EstimatorRow
from assay_trainer.objective.losses.row import LossBounds, LossRow
from assay_trainer.objective.losses.table import LOSSES, average_of
from assay_trainer.objective.sampled import Sampled


@dataclass(frozen=True)
class Correction:
    """A correction with its bounds; 0 and infinity stand for none."""

    row: CorrectionRow
    low: float
    high: float


@dataclass(frozen=True)
class Objective:
    """The chosen rows of the menu, with their settings."""

    loss: LossRow
    average: AverageRow
    bounds: LossBounds
    #: None has the ratio to the engine, and no importance weights.
    correction: Correction | None
    kl: EstimatorRow
    kl_weight: float
    entropy_weight: float
    #: The constant length of the constant average.
    max_tokens: int
    #: Tokens of older versions than this many before the trainer's are not learnt.
    max_staleness: int

    @classmethod
    def of(cls, config: GRPOConfig) -> Self:
        loss = LOSSES[config.loss]
        names = [one.name for one in fields(LossBounds)]
        return cls(
            loss=loss,
            average=AVERAGES[average_of(config.loss, config.average)],
            bounds=LossBounds(**{name: getattr(config, name) for name in names}),
            correction=_correction(config),
            kl=ESTIMATORS[config.kl_estimator],
            kl_weight=config.kl_weight,
            entropy_weight=config.entropy_weight,
            max_tokens=config.max_tokens,
            max_staleness=config.max_staleness,
        )

    def token_weights(self, lengths_S: Sequence[int]) -> list[float]:
        """Return the weight of each token of a sequence, by sequence; `lengths_S` in tokens."""
        return self.average.weights(lengths_S, self.max_tokens)


def _correction(config: GRPOConfig) -> Correction | None:
    if config.correction is None:
        return None
    row = CORRECTIONS[config.correction.kind]
    low, high = (
        given if given is not None else own
        for given, own in (
            (config.correction.low, row.low),
            (config.correction.high, row.high),
        )
    )
    return Correction(row, 0.0 if low is None else low, torch.inf if high is None else high)


@dataclass(frozen=True)
class LossTokens:
    """The sampled tokens of a pack, without the model's log-probabilities."""

    #: Of the engine that sampled the tokens.
    old_logprobs_L: torch.Tensor
    #: Of the reference policy; None without a KL term.
    reference_logprobs_L: torch.Tensor | None
    advantages_L: torch.Tensor
    weights_L: torch.Tensor
    #: The index of each token's sequence in the pack, ascending.
    sequence_L: torch.Tensor
    #: Of the trainer's policy in the step's first update; None in that update.
    proximal_logprobs_L: torch.Tensor | None = None


@dataclass(frozen=True)
class LossSums:
    """The loss of a pack and the sums of its tokens for the step's event."""

    loss: torch.Tensor
    entropy: torch.Tensor
    #: Of the chosen estimate; 0 without a KL term.
    kl: torch.Tensor
    clipped_low: torch.Tensor
    clipped_high: torch.Tensor
    masked: torch.Tensor
    truncated: torch.Tensor
    #: Of the importance weights, before bounds.
    importance: torch.Tensor
    #: Of the tokens' weights in the average, and of their squares.
    weight: torch.Tensor
    weight_squares: torch.Tensor
    #: Of the gradient's absolute values, with respect to the log-probabilities: of all but the KL,
    #: and of the KL.
    policy_gradient: torch.Tensor
    kl_gradient: torch.Tensor


def policy_loss(
    objective: Objective, logprobs_L: torch.Tensor, entropy_L: torch.Tensor, tokens: LossTokens
) -> LossSums:
    """Return the loss of a pack: its share of the step's loss."""
    proximal_L = tokens.proximal_logprobs_L
    proximal_L = logprobs_L.detach() if proximal_L is None else proximal_L
    log_weight_L = proximal_L - tokens.old_logprobs_L
    importance = _importance(objective, log_weight_L, tokens)
    old_L = tokens.old_logprobs_L if objective.correction is None else proximal_L
    sampled = Sampled(logprobs_L, old_L, tokens.advantages_L, tokens.sequence_L)
    found = objective.loss.terms(sampled, objective.bounds)
    weights_L = tokens.weights_L * importance.weights_L
    policy = (weights_L * found.terms_L).sum()
    kl_values_L = torch.zeros_like(logprobs_L)
    kl = policy.new_zeros(())
    if tokens.reference_logprobs_L is not None:
        terms = objective.kl.terms(sampled, tokens.reference_logprobs_L)
        kl_values_L = terms.values_L
        kl = objective.kl_weight * (weights_L * terms.terms_L).sum()
    loss = policy + kl
    if objective.entropy_weight:
        loss = loss - objective.entropy_weight * (tokens.weights_L * entropy_L).sum()
    return LossSums(
        loss=loss,
        entropy=entropy_L.detach().sum(),
        kl=kl_values_L.sum(),
        clipped_low=found.low_L.sum(),
        clipped_high=found.high_L.sum(),
        masked=importance.masked_L.sum(),
        truncated=importance.truncated_L.sum(),
        importance=log_weight_L.exp().sum(),
        weight=tokens.weights_L.double().sum(),
        weight_squares=tokens.weights_L.double().square().sum(),
        policy_gradient=_size(policy, logprobs_L),
        kl_gradient=_size(kl, logprobs_L),
    )


def _importance(objective: Objective, log_weight_L: torch.Tensor, tokens: LossTokens) -> Weights:
    correction = objective.correction
    if correction is None:
        none_L = torch.zeros_like(log_weight_L, dtype=torch.bool)
        return Weights(torch.ones_like(log_weight_L), none_L, none_L)
    gap = EngineGap(log_weight_L, tokens.advantages_L, tokens.sequence_L)
    return correction.row.weigh(gap, correction.low, correction.high)


def _size(part: torch.Tensor, logprobs_L: torch.Tensor) -> torch.Tensor:
    """Return the sum of the absolute values of the gradient of a part of the loss."""
    if not part.requires_grad:
        return torch.zeros_like(part)
    (found_L,) = torch.autograd.grad(part, logprobs_L, retain_graph=True)
    return found_L.abs().sum()
