"""TIS, truncated importance sampling: the weight has an upper bound.

weight = min(w_t, high),  w_t = p_proximal(y_t) / p_engine(y_t)

From F. Yao et al., "Your efficient RL framework secretly brings you off-policy RL training" (2025),
with high = 2; the same bound is V-trace's (arXiv 1802.01561).
"""

from assay_trainer.objective.corrections.row import CorrectionRow, EngineGap, Weights
from assay_trainer.objective.sampled import none_of


def _weigh(gap: EngineGap, _: float, high: float) -> Weights:
    weight_L = gap.log_weight_L.exp()
    return Weights(weight_L.clamp(max=high), none_of(weight_L), weight_L > high)


ROW = CorrectionRow("tis", "Yao et al. 2025; arXiv 1802.01561", "min(w, high)", _weigh, high=2.0)
