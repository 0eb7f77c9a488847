"""A mask of sequences by their importance weight: MIS of whole sequences.

weight of each token of y = w(y) if low <= w(y) <= high, else 0,  w(y) = product of its w_t

From J. Liu, Y. Li et al., "When speed kills stability" (2025), where low is 0. The weight is
the exact one of a whole sequence, so it varies much with long answers.
"""

from assay_trainer.objective.corrections.row import CorrectionRow, EngineGap, Weights, kept_where
from assay_trainer.objective.sampled import sums_of_sequences


def _weigh(gap: EngineGap, low: float, high: float) -> Weights:
    weight_L = sums_of_sequences(gap.log_weight_L, gap.sequence_L).exp()
    return kept_where(weight_L, (weight_L >= low) & (weight_L <= high))


ROW = CorrectionRow(
    "sequence_mask",
    "Liu, Li et al. 2025",
    "w(y) if low <= w(y) <= high, else 0",
    _weigh,
    low=0.0,
    high=2.0,
)
