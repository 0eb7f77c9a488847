"""Drawing tokens from logits. Shapes: B rows, V vocabulary."""

import torch


def draw(
    logits_BV: torch.Tensor,
    temperature_B: torch.Tensor,
    top_p_B: torch.Tensor,
    uniform_B: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token per row by inverse transform sampling, and its log-probability.

    A row's token depends on its own logits and its own `uniform_B` in [0, 1) alone, so a seeded
    sample is the same in any batch. Temperature 0 takes the most probable token. Log-probabilities
    are those of the softmax at the row's temperature (at 1 where it is 0), before top-p.

    Returns:
        ids_B (int64) and logprobs_B (float32).
    """
    greedy_B = temperature_B == 0
    scaled_BV = logits_BV.float() / torch.where(greedy_B, 1.0, temperature_B)[:, None]
    logprobs_BV = torch.log_softmax(scaled_BV, dim=-1)
    # In double precision, the last of 150,000 partial sums is still 1.
    probs_BV = logprobs_BV.double().exp()
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
