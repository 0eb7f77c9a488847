"""Decoupled PPO (arXiv 2110.00641, eq. 4; for language models 2505.24298, eq. 5): the whole weight.

weight = w_t

It is unbiased and has no bound: a single token may outweigh a batch.
"""

from assay_trainer.objective.corrections.row import CorrectionRow, EngineGap, Weights
from assay_trainer.objective.sampled import none_of


def _weigh(gap: EngineGap, _: float, __: float) -> Weights:
    weight_L = gap.log_weight_L.exp()
    return Weights(weight_L, none_of(weight_L), none_of(weight_L))


ROW = CorrectionRow("decoupled", "arXiv 2110.00641, 2505.24298", "w", _weigh)
