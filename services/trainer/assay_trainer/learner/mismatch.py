"""How far an engine's log-probabilities are from the trainer's, of tokens that it sampled.

Only tokens of the version that the trainer's weights have count: of older ones, the difference is
what was learnt since, and no fault. Shapes: B rows, C completion tokens.
"""

import torch

from assay_shared.errors import InternalFault
from assay_trainer.events import Mismatch


class Mismatched(InternalFault):
    """Inference samples from other weights than it names, or computes something else with them."""


class MismatchSums:
    """Sums over the tokens of one step; `summary` makes means of them."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self._sum_abs = self._max_abs = self._sum_k1 = self._sum_k3 = 0.0

    def add(self, trainer_BC: torch.Tensor, engine_BC: torch.Tensor, mask_BC: torch.Tensor) -> None:
        """Take in the log-probabilities where `mask_BC` is 1."""
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
        """None if no token could be measured.

        With r = log p_trainer - log p_engine of tokens that the engine sampled, both are estimates
        of KL(engine || trainer): k1 = -r, which is unbiased and may be negative, and
        k3 = exp(r) - 1 - r, which is unbiased too and never negative (J. Schulman, "Approximating
        KL Divergence", 2020).
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
            hint="look at GET /v1/weights of inference, and at who else publishes to it",
        )
