"""Differences between the engine's and the trainer's log-probabilities of sampled tokens.

Only tokens sampled by the current version are compared. Older tokens differ because the policy
has been trained since. Shapes: B rows, C completion tokens.
"""

import torch

from assay_shared.errors import InternalFault
from assay_trainer.events import Mismatch


class Mismatched(InternalFault):
    """Inference samples from other weights than it names, or computes something else with them."""


class MismatchSums:
    """Sums over the tokens of a step; `summary` returns their means."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self._sum_abs = self._max_abs = self._sum_k1 = self._sum_k3 = 0.0

    def add(self, trainer_BC: torch.Tensor, engine_BC: torch.Tensor, mask_BC: torch.Tensor) -> None:
        """Add the log-probabilities at the positions with `mask_BC` 1."""
        kept_BC = mask_BC.bool()
        if not bool(kept_BC.any()):
            return
        ratio_N = (trainer_BC.detach().double() - engine_BC.double())[kept_BC]
        self.num_tokens += ratio_N.numel()
        self._sum_abs += float(ratio_N.abs().sum())
        self._max_abs = float(ratio_N.abs().max().clamp(min=self._max_abs))
        self._sum_k1 -= float(ratio_N.sum())
        self._sum_k3 += float((ratio_N.expm1() - ratio_N).sum())

    def summary(self) -> Mismatch | None:
        """Return the means; None if no token was measured.

        With r = log p_trainer - log p_engine of tokens sampled by the engine, both are unbiased
        estimates of KL(engine || trainer): k1 = -r may be negative, k3 = exp(r) - 1 - r never is
        (J. Schulman, "Approximating KL Divergence", 2020).
        """
        if self.num_tokens == 0:
            return None
        return Mismatch(
            num_tokens=self.num_tokens,
            mean_abs_nats=self._sum_abs / self.num_tokens,
            max_abs_nats=self._max_abs,
            kl_k1_nats=self._sum_k1 / self.num_tokens,
            kl_k3_nats=self._sum_k3 / self.num_tokens,
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
