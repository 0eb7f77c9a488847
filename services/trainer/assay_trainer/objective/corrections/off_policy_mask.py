"""A mask of bad sequences that the trainer's policy would hardly have sampled (DeepSeek-V3.2).

weight of each token of y = 0 if A < 0 and (product of its w_t)^(1 / |y|) < low, else 1

From arXiv 2512.02556, eq. 9, where the mean of log p_engine - log p has the bound delta: low is
exp(-delta), and the default is that of delta = 0.5.
"""

from assay_trainer.objective.corrections.row import CorrectionRow, EngineGap, Weights, kept_where
from assay_trainer.objective.sampled import means_of_sequences


def _weigh(gap: EngineGap, low: float, _: float) -> Weights:
    mean_L = means_of_sequences(gap.log_weight_L, gap.sequence_L).exp()
    masked_L = (gap.advantages_L < 0) & (mean_L < low)
    return kept_where(mean_L.new_ones(mean_L.shape), ~masked_L)


ROW = CorrectionRow(
    "off_policy_mask",
    "arXiv 2512.02556",
    "0 if A < 0 and w(y)^(1 / length) < low, else 1",
    _weigh,
    low=0.6065,
)
