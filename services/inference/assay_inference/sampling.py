"""Drawing tokens from logits. Shapes: B rows, V vocabulary."""

import torch

from assay_inference.logit_rules import keep_min_p, keep_top_k


def draw(
    logits_BV: torch.Tensor,
    temperature_B: torch.Tensor,
    top_p_B: torch.Tensor,
    uniform_B: torch.Tensor,
    top_k_B: torch.Tensor | None = None,
    min_p_B: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token per row by inverse transform sampling, and its log-probability.

    A row's token depends on its own logits and its own `uniform_B` in [0, 1) alone, so a seeded
    sample is the same in any batch. Temperature 0 takes the most probable token. Log-probabilities
    are those of the softmax at the row's temperature (at 1 where it is 0), before min-p, top-k and
    top-p, which follow each other and take what is left for the whole.

    Returns:
        ids_B (int64) and logprobs_B (float32).
    """
    greedy_B = temperature_B == 0
    scaled_BV = logits_BV.float() / torch.where(greedy_B, 1.0, temperature_B)[:, None]
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
    target_B = uniform_B.double() * cumulative_BV[:, -1]
    drawn_B = torch.searchsorted(cumulative_BV, target_B[:, None], right=True)[:, 0]
    ids_B = torch.where(
        greedy_B, logits_BV.argmax(dim=-1), drawn_B.clamp(max=logits_BV.shape[1] - 1)
    )
    return ids_B, logprobs_BV.gather(1, ids_B[:, None])[:, 0]


def keep_top_p(probs_BV: torch.Tensor, top_p_B: torch.Tensor) -> torch.Tensor:
    """Zero all but the smallest set of most probable tokens that holds `top_p` of each row."""
    sorted_BV, order_BV = probs_BV.sort(dim=-1, descending=True)
    before_BV = sorted_BV.cumsum(dim=-1) - sorted_BV
    kept_BV = sorted_BV.where(before_BV < top_p_B.double()[:, None], 0.0)
    return torch.zeros_like(probs_BV).scatter(1, order_BV, kept_BV)


def _whole(probs_BV: torch.Tensor) -> torch.Tensor:
    return probs_BV / probs_BV.sum(dim=-1, keepdim=True)
