"""Differences between the engine's and the trainer's log-probabilities of sampled tokens.

Only tokens sampled by the current version are compared. Older tokens differ because the policy
has been trained since.
"""

import torch

from assay_shared.errors import InternalFault
from assay_trainer.events import Mismatch


class Mismatched(InternalFault):
    """Inference samples from other weights than it names, or computes something else with them."""


class MismatchSums:
    """Sums over the tokens of a step, on their device; `summary` returns their means."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        #: Number of tokens, then sums of |r|, k1 and k3: see `summary`.
        self.sums_4 = torch.zeros(4, dtype=torch.float64, device=device)
        self.max_1 = torch.zeros(1, dtype=torch.float64, device=device)

    @property
    def num_tokens(self) -> int:
        return int(self.sums_4[0])

    def add(self, trainer_N: torch.Tensor, engine_N: torch.Tensor, mask_N: torch.Tensor) -> None:
        """Add the log-probabilities at the positions with `mask_N` 1; all have the same shape."""
        kept_N = mask_N.bool()
        ratio_N = (trainer_N.detach().double() - engine_N.double()).masked_fill(~kept_N, 0.0)
        each = (kept_N, ratio_N.abs(), -ratio_N, ratio_N.expm1() - ratio_N)
        self.sums_4 += torch.stack([one.sum(dtype=torch.float64) for one in each])
        if ratio_N.numel():
            self.max_1 = torch.maximum(self.max_1, ratio_N.abs().max())

    def summary(self) -> Mismatch | None:
        """Return the means; None if no token was measured.

        With r = log p_trainer - log p_engine of tokens sampled by the engine, both are unbiased
        estimates of KL(engine || trainer): k1 = -r may be negative, k3 = exp(r) - 1 - r never is
        (J. Schulman, "Approximating KL Divergence", 2020).
        """
        num_tokens, sum_abs, sum_k1, sum_k3 = self.sums_4.tolist()
        if num_tokens == 0:
            return None
        return Mismatch(
            num_tokens=int(num_tokens),
            mean_abs_nats=sum_abs / num_tokens,
            max_abs_nats=float(self.max_1),
            kl_k1_nats=sum_k1 / num_tokens,
            kl_k3_nats=sum_k3 / num_tokens,
        )


def check_mismatch(found: Mismatch | None, limit_nats: float, version: int) -> None:
    """Raises Mismatched if the mean is over the limit; NaN is."""
    if found is not None and not found.mean_abs_nats <= limit_nats:
        raise Mismatched(
            f"inference and trainer differ by {found.mean_abs_nats:.3g} nats a token (mean of "
            f"{found.num_tokens} tokens that name version {version}; grpo.max_mismatch_nats is "
            f"{limit_nats:g}): the weights that sample are not those that are trained",
            hint="check GET /v1/weights of inference, and for another publisher",
        )
