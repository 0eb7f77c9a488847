"""GRPO (arXiv 2402.03300, eq. 3): the clipped ratio of each token, averaged by sequence.

L = mean over sequences i of mean over its tokens t of
    -min(r_t A_i, clip(r_t, 1 - clip_low, 1 + clip_high) A_i),  r_t = p(y_t) / p_old(y_t)
"""

from assay_trainer.objective.losses.clipped import CLIPS, clipped
from assay_trainer.objective.losses.row import LossBounds, LossRow, LossTerms
from assay_trainer.objective.sampled import Sampled


def _terms(sampled: Sampled, bounds: LossBounds) -> LossTerms:
    return clipped(sampled.log_ratio_L, sampled.advantages_L, bounds)


ROW = LossRow(
    "grpo", "arXiv 2402.03300", "-min(r A, clip(r, 1 - low, 1 + high) A)", "sequence", CLIPS, _terms
)
