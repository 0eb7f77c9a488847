"""DAPO (arXiv 2503.14476, eq. 8): GRPO's term, averaged over all tokens, with a higher upper clip.

L = 1 / (sum of all |y|) times the sum over all tokens of
    -min(r_t A_i, clip(r_t, 1 - clip_low, 1 + clip_high) A_i)

Its dynamic sampling is `replace_flat`, its soft punishment `overlong`.
"""

from assay_trainer.objective.losses.clipped import CLIPS, clipped
from assay_trainer.objective.losses.row import LossBounds, LossRow, LossTerms
from assay_trainer.objective.sampled import Sampled


def _terms(sampled: Sampled, bounds: LossBounds) -> LossTerms:
    return clipped(sampled.log_ratio_L, sampled.advantages_L, bounds)


ROW = LossRow(
    "dapo", "arXiv 2503.14476", "-min(r A, clip(r, 1 - low, 1 + high) A)", "token", CLIPS, _terms
)
