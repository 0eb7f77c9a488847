"""The objective of GRPO: a sum over sampled tokens of a weight times a term.

The weights are made for a whole step, so the cut into packs changes nothing. Shapes: S sequences,
L sampled tokens of a pack, one sequence after another. Logarithms are natural.

loss       term of a token                          weight of a token
dapo       clipped ratio (arXiv 2402.03300, eq. 3)  1 / tokens of the step (2503.14476, eq. 8)
grpo       as dapo                                  1 / (tokens of its sequence * S)
dr_grpo    as dapo                                  1 / (S * max_tokens) (2503.20783)
gspo       clipped ratio of the sequence            as grpo (2507.18071, eq. 5)
cispo      truncated ratio, no clip of the gradient as dapo (2506.13585, eq. 4)

With `truncate`, the first three are decoupled (arXiv 2110.00641, 2505.24298): the ratio is to a
proximal policy, and each term has the importance weight min(pi_proximal / pi_engine, truncate), as
in V-trace (1802.01561). A batch has one update, so the proximal policy is that of the forward pass:
the ratio is 1, its gradient that of the log-probability, and a clip would never act.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch

from assay_trainer.grpo_config import GRPOConfig, Loss


@dataclass(frozen=True)
class Objective:
    """The form of the loss and its bounds; ratios are clipped to 1 - clip_low, 1 + clip_high."""

    loss: Loss
    clip_low: float
    clip_high: float
    #: The greatest ratio of a token with a negative advantage (dual clip, arXiv 1912.09729).
    dual_clip: float | None
    kl_weight: float
    #: The greatest importance weight of a token; None clips the ratio in its place.
    truncate: float | None
    #: The constant length of `dr_grpo`.
    max_tokens: int
    #: Tokens of older versions than this many before the trainer's are not learnt.
    max_staleness: int

    @classmethod
    def of(cls, config: GRPOConfig) -> Self:
        return cls(
            loss=config.loss,
            clip_low=config.clip_low,
            clip_high=config.clip_high,
            dual_clip=config.dual_clip,
            kl_weight=config.kl_weight,
            truncate=config.correction.high if config.correction else None,
            max_tokens=config.max_tokens,
            max_staleness=config.max_staleness,
        )

    def token_weights(self, lengths_S: Sequence[int]) -> list[float]:
        """Return the weight of each token of a sequence, by sequence; `lengths_S` in tokens."""
        num_sequences, num_tokens = len(lengths_S), sum(lengths_S)
        match self.loss:
            case "dapo" | "cispo":
                return [1 / max(1, num_tokens)] * num_sequences
            case "grpo" | "gspo":
                return [1 / (max(1, length) * num_sequences) for length in lengths_S]
            case "dr_grpo" | "dgro" | "reinforce":
                return [1 / (max(1, num_sequences) * self.max_tokens)] * num_sequences


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


@dataclass(frozen=True)
class LossSums:
    """The loss of a pack and the sums of its tokens for the step's event."""

    loss: torch.Tensor
    num_clipped_low: torch.Tensor
    num_clipped_high: torch.Tensor
    #: Sum of the KL estimate k3 over the tokens; 0 without a KL term.
    kl: torch.Tensor


def policy_loss(objective: Objective, logprobs_L: torch.Tensor, tokens: LossTokens) -> LossSums:
    """Return the loss of a pack: its share of the step's loss."""
    if objective.truncate is not None:
        return _truncated_loss(objective, objective.truncate, logprobs_L, tokens)
    advantages_L = tokens.advantages_L
    log_ratio_L = logprobs_L - tokens.old_logprobs_L
    if objective.loss == "gspo":
        log_ratio_L = _means_of_sequences(log_ratio_L, tokens.sequence_L)
    ratio_L = log_ratio_L.exp()
    high_L = (ratio_L > 1 + objective.clip_high) & (advantages_L > 0)
    low_L = (ratio_L < 1 - objective.clip_low) & (advantages_L < 0)
    if objective.loss == "cispo":
        low_L = torch.zeros_like(low_L)  # CISPO has no lower bound
        capped_L = ratio_L.clamp(max=1 + objective.clip_high).detach()
        terms_L = -capped_L * advantages_L * logprobs_L
    else:
        clipped_L = ratio_L.clamp(1 - objective.clip_low, 1 + objective.clip_high)
        bounded_L = ratio_L
        if objective.dual_clip is not None:
            bounded_L = ratio_L.clamp(max=objective.dual_clip)
        terms_L = -torch.minimum(bounded_L * advantages_L, clipped_L * advantages_L)
    kl_L = _kl(tokens, logprobs_L)
    # With the ratio, its gradient is that of the reverse KL (arXiv 2512.02556, eq. 7).
    terms_L = terms_L + objective.kl_weight * ratio_L * kl_L
    return LossSums(
        (tokens.weights_L * terms_L).sum(),
        low_L.sum().detach(),
        high_L.sum().detach(),
        kl_L.sum().detach(),
    )


def _truncated_loss(
    objective: Objective, most: float, logprobs_L: torch.Tensor, tokens: LossTokens
) -> LossSums:
    proximal_L = logprobs_L.detach()
    weight_L = (proximal_L - tokens.old_logprobs_L).exp()
    ratio_L = (logprobs_L - proximal_L).exp()
    kl_L = _kl(tokens, logprobs_L)
    terms_L = ratio_L * (objective.kl_weight * kl_L - tokens.advantages_L)
    return LossSums(
        (tokens.weights_L * weight_L.clamp(max=most) * terms_L).sum(),
        torch.zeros((), device=logprobs_L.device),
        (weight_L > most).sum(),
        kl_L.sum().detach(),
    )


def _kl(tokens: LossTokens, logprobs_L: torch.Tensor) -> torch.Tensor:
    """Return the estimate k3 of each token's KL to the reference policy; 0 without one."""
    if tokens.reference_logprobs_L is None:
        return torch.zeros_like(logprobs_L)
    gap_L = tokens.reference_logprobs_L - logprobs_L
    return gap_L.expm1() - gap_L


def _means_of_sequences(values_L: torch.Tensor, sequence_L: torch.Tensor) -> torch.Tensor:
    """Return for each token the mean over its sequence."""
    num = int(sequence_L[-1]) + 1 if len(sequence_L) else 0
    sums_S = values_L.new_zeros(num).index_add(0, sequence_L, values_L)
    lengths_S = torch.bincount(sequence_L, minlength=num).clamp(min=1)
    return (sums_S / lengths_S)[sequence_L]
