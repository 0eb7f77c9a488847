"""GSPO (arXiv 2507.18071, eq. 5 and 7): the clipped ratio of the whole sequence.

L = mean over sequences i of -min(s_i A_i, clip(s_i, 1 - clip_low, 1 + clip_high) A_i),
s_i = (p(y_i) / p_old(y_i))^(1 / |y_i|)

Each token of a sequence has the sequence's term. The paper's clips are 3e-4 and 4e-4.
"""

from assay_trainer.objective.losses.clipped import CLIPS, clipped
from assay_trainer.objective.losses.row import LossBounds, LossRow, LossTerms
from assay_trainer.objective.sampled import Sampled, means_of_sequences


def _terms(sampled: Sampled, bounds: LossBounds) -> LossTerms:
    log_ratio_L = means_of_sequences(sampled.log_ratio_L, sampled.sequence_L)
    return clipped(log_ratio_L, sampled.advantages_L, bounds)


ROW = LossRow(
    "gspo",
    "arXiv 2507.18071",
    "-min(s A, clip(s, 1 - low, 1 + high) A), s = (p(y) / p_old(y))^(1 / length)",
    "sequence",
    CLIPS,
    _terms,
    is_corrected=False,
)
