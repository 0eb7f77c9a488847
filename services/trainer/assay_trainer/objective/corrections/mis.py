"""MIS, masked importance sampling: a token with a greater weight is left out.

weight = w_t if w_t <= high, else 0

From J. Liu, Y. Li et al., "When speed kills stability: demystifying RL collapse from the
training-inference mismatch" (2025), for tokens. A cut weight keeps the direction of a token that
the engine should hardly have sampled; a mask does not. `sequence_mask` masks whole sequences.
"""

from assay_trainer.objective.corrections.row import CorrectionRow, EngineGap, Weights, kept_where


def _weigh(gap: EngineGap, _: float, high: float) -> Weights:
    weight_L = gap.log_weight_L.exp()
    return kept_where(weight_L, weight_L <= high)


ROW = CorrectionRow("mis", "Liu, Li et al. 2025", "w if w <= high, else 0", _weigh, high=2.0)
