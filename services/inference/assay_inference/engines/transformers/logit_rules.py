"""Rules applied to logits before sampling.

The rules come in vLLM's order: the form's mask, `min_tokens`, `logit_bias`, `repetition_penalty`,
`frequency_penalty`, `presence_penalty`, the temperature, `min_p`, `top_k`, `top_p`. The rules
before the temperature change log-probabilities; the filters after it do not.

Shapes: B rows, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from assay_shared.types import SamplingParams, TopLogprobs

#: Under a lower one, the same tokens are possible: only those of the largest logit.
LEAST_TEMPERATURE = 1e-30


@dataclass(frozen=True)
class Context:
    """The inputs of a row's rules.

    `end_ids` end this sample. `allowed_V` is its form's present mask, if it has a form.
    """

    sampling: SamplingParams
    prompt: Sequence[int]
    drawn: Sequence[int]
    end_ids: frozenset[int]
    allowed_V: torch.Tensor | None = None


def has_rules(sampling: SamplingParams) -> bool:
    """Return True if any rule before the temperature applies."""
    return bool(
        sampling.structure
        or sampling.min_tokens
        or sampling.logit_bias
        or sampling.repetition_penalty != 1
        or sampling.frequency_penalty
        or sampling.presence_penalty
    )


def apply_rules(logits_V: torch.Tensor, context: Context) -> torch.Tensor:
    """Return a row's logits, float32, after its rules."""
    sampling, drawn = context.sampling, context.drawn
    if context.allowed_V is not None:
        logits_V = logits_V.masked_fill(~context.allowed_V.to(logits_V.device), -torch.inf)
    if len(drawn) < sampling.min_tokens:
        logits_V = _without(logits_V, context.end_ids)
    if sampling.logit_bias:
        ids = torch.tensor(list(sampling.logit_bias), device=logits_V.device)
        bias = torch.tensor(list(sampling.logit_bias.values()), device=logits_V.device)
        logits_V = logits_V.index_add(0, ids, bias.to(logits_V.dtype))
    if sampling.repetition_penalty != 1:
        seen = [*context.prompt, *drawn]
        logits_V = penalise_repetition(logits_V, seen, sampling.repetition_penalty)
    return penalise_counts(logits_V, drawn, sampling.frequency_penalty, sampling.presence_penalty)


def _without(logits_V: torch.Tensor, ids: frozenset[int]) -> torch.Tensor:
    """Rule out tokens, unless no other is left: a form may allow only the end."""
    if not ids:
        return logits_V
    left_V = logits_V.index_fill(0, torch.tensor(sorted(ids), device=logits_V.device), -torch.inf)
    return logits_V if bool(torch.isneginf(left_V).all()) else left_V


def penalise_repetition(
    logits_V: torch.Tensor, seen: Sequence[int], penalty: float
) -> torch.Tensor:
    """Divide positive logits of seen tokens by `penalty`, multiply negative logits."""
    ids = torch.tensor(sorted(set(seen)), dtype=torch.long, device=logits_V.device)
    there = logits_V[ids]
    return logits_V.index_copy(0, ids, torch.where(there > 0, there / penalty, there * penalty))


def penalise_counts(
    logits_V: torch.Tensor, drawn: Sequence[int], frequency: float, presence: float
) -> torch.Tensor:
    """Subtract `frequency` for each occurrence of a sampled token, and `presence` once."""
    if not drawn or not (frequency or presence):
        return logits_V
    ids = torch.tensor(drawn, device=logits_V.device)
    counts_V = torch.bincount(ids, minlength=len(logits_V)).to(logits_V.dtype)
    return logits_V - frequency * counts_V - presence * (counts_V > 0)


def keep_min_p(probs_BV: torch.Tensor, min_p_B: torch.Tensor) -> torch.Tensor:
    """Zero the tokens with a probability below `min_p` times the row's greatest."""
    least_B1 = probs_BV.amax(dim=-1, keepdim=True) * min_p_B[:, None].to(probs_BV.dtype)
    return probs_BV.where(probs_BV >= least_B1, 0.0)


def keep_top_k(probs_BV: torch.Tensor, top_k_B: torch.Tensor) -> torch.Tensor:
    """Zero all but the `top_k` most probable tokens and their ties; 0 keeps all."""
    size = probs_BV.shape[-1]
    most = int(top_k_B.clamp(max=size).max())
    if most == 0:
        return probs_BV
    sorted_BK = probs_BV.topk(most, dim=-1).values
    last_B1 = (top_k_B.clamp(1, most) - 1)[:, None]
    least_B1 = sorted_BK.gather(1, last_B1).where(top_k_B[:, None] > 0, 0.0)
    return probs_BV.where(probs_BV >= least_B1, 0.0)


def most_probable(logits_V: torch.Tensor, temperature: float, number: int) -> TopLogprobs:
    """Return the most probable tokens of a row and their log-probabilities.

    Excluded tokens have no log-probability, and are left out.
    """
    # The largest becomes 0 first: divided by little, it would be infinite.
    below_V = logits_V.float() - logits_V.float().amax()
    divisor = max(temperature, LEAST_TEMPERATURE) if temperature else 1.0
    logprobs_V = torch.log_softmax(below_V / divisor, dim=-1)
    values, ids = logprobs_V.topk(min(number, len(logits_V)))
    pairs = zip(ids.tolist(), values.tolist(), strict=True)
    return tuple((token_id, value) for token_id, value in pairs if value > -torch.inf)
