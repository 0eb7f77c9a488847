"""Dr. GRPO (arXiv 2503.20783): GRPO's term by a constant length, so long answers weigh no less.

L = 1 / (S max_tokens) times the sum over all tokens of
    -min(r_t A_i, clip(r_t, 1 - clip_low, 1 + clip_high) A_i)

The paper's advantages are those of `normalise: none`.
"""

from assay_trainer.objective.losses.clipped import CLIPS, clipped
from assay_trainer.objective.losses.row import LossBounds, LossRow, LossTerms
from assay_trainer.objective.sampled import Sampled


def _terms(sampled: Sampled, bounds: LossBounds) -> LossTerms:
    return clipped(sampled.log_ratio_L, sampled.advantages_L, bounds)


ROW = LossRow(
    "dr_grpo",
    "arXiv 2503.20783",
    "-min(r A, clip(r, 1 - low, 1 + high) A)",
    "constant",
    CLIPS,
    _terms,
)
