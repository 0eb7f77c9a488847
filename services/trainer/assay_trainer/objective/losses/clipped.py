"""The clipped ratio of PPO (arXiv 1707.06347, eq. 7), which several losses share.

term = -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)

With `dual_clip`, r of a token with a negative advantage is at most that (arXiv 1912.09729, eq. 9).
"""

from typing import TYPE_CHECKING

from assay_trainer.objective.losses.row import LossBounds, LossTerms

if TYPE_CHECKING:
    from torch import Tensor

CLIPS = frozenset({"clip_low", "clip_high", "dual_clip"})


def clipped(log_ratio_L: "Tensor", advantages_L: "Tensor", bounds: LossBounds) -> LossTerms:
    """Return the clipped terms of tokens whose logarithm of the ratio is given."""
    ratio_L = log_ratio_L.exp()
    clipped_L = ratio_L.clamp(1 - bounds.clip_low, 1 + bounds.clip_high)
    bounded_L = ratio_L if bounds.dual_clip is None else ratio_L.clamp(max=bounds.dual_clip)
    high_L = (ratio_L > 1 + bounds.clip_high) & (advantages_L > 0)
    if bounds.dual_clip is not None:
        high_L = high_L | ((ratio_L > bounds.dual_clip) & (advantages_L < 0))
    return LossTerms(
        -(bounded_L * advantages_L).minimum(clipped_L * advantages_L),
        (ratio_L < 1 - bounds.clip_low) & (advantages_L < 0),
        high_L,
    )
