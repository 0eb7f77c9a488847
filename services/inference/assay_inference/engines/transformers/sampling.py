"""Drawing tokens from logits. Shapes: B rows, V vocabulary."""

import torch

from assay_inference.engines.transformers.logit_rules import (
    LEAST_TEMPERATURE,
    keep_min_p,
    keep_top_k,
)


def draw(
    logits_BV: torch.Tensor,
    temperature_B: torch.Tensor,
    top_p_B: torch.Tensor,
    uniform_B: torch.Tensor,
    top_k_B: torch.Tensor | None = None,
    min_p_B: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample a token per row by inverse transform sampling; return it with its log-probability.

    A row's token depends only on its own logits and its own `uniform_B` in [0, 1), so a seeded
    sample is the same in any batch. Temperature 0 takes the most probable token. Log-probabilities
    are of the softmax at the row's temperature (at 1 for temperature 0), before min-p, top-k and
    top-p; these filters follow each other, each renormalising the rest.

    A temperature near 0 is its limit: the tokens of the largest logit share the probability.

    Returns:
        ids_B (int64) and logprobs_B (float32).
    """
    greedy_B = temperature_B == 0
    divisor_B = torch.where(greedy_B, 1.0, temperature_B).clamp(min=LEAST_TEMPERATURE)
    # The largest becomes 0 first: divided by little, it would be infinite.
    below_BV = logits_BV.float() - logits_BV.float().amax(dim=-1, keepdim=True)
    scaled_BV = below_BV / divisor_B.float()[:, None]
    logprobs_BV = torch.log_softmax(scaled_BV, dim=-1)
    # In double precision, the last of 150,000 partial sums is still 1.
    probs_BV = logprobs_BV.double().exp()
    if min_p_B is not None and bool((min_p_B > 0).any()):
        probs_BV = _whole(keep_min_p(probs_BV, min_p_B))
    if top_k_B is not None and bool((top_k_B > 0).any()):
        probs_BV = _whole(keep_top_k(probs_BV, top_k_B))
    if bool((top_p_B < 1).any()):
        probs_BV = keep_top_p(probs_BV, top_p_B)
    cumulative_BV = probs_BV.cumsum(dim=-1)
    total_B = cumulative_BV[:, -1]
    # Below the total even where the product is rounded up: what follows is of probability 0.
    below_total_B = torch.nextafter(total_B, torch.zeros_like(total_B))
    target_B = torch.minimum(uniform_B.double() * total_B, below_total_B)
    drawn_B = torch.searchsorted(cumulative_BV, target_B[:, None], right=True)[:, 0]
    ids_B = torch.where(greedy_B, logits_BV.argmax(dim=-1), drawn_B)
    return ids_B, logprobs_BV.gather(1, ids_B[:, None])[:, 0]


def keep_top_p(probs_BV: torch.Tensor, top_p_B: torch.Tensor) -> torch.Tensor:
    """Zero all but the smallest set of most probable tokens with `top_p` of each row."""
    sorted_BV, order_BV = probs_BV.sort(dim=-1, descending=True)
    before_BV = sorted_BV.cumsum(dim=-1) - sorted_BV
    kept_BV = sorted_BV.where(before_BV < top_p_B.double()[:, None], 0.0)
    return torch.zeros_like(probs_BV).scatter(1, order_BV, kept_BV)


def is_finite(logits_BV: torch.Tensor) -> list[bool]:
    """Return, per row, True if its logits are a distribution: no NaN, and a finite largest."""
    finite: list[bool] = logits_BV.amax(dim=-1).isfinite().tolist()
    return finite


def _whole(probs_BV: torch.Tensor) -> torch.Tensor:
    return probs_BV / probs_BV.sum(dim=-1, keepdim=True)
