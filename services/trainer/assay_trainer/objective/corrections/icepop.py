"""IcePop: a token whose weight is outside of a band on either side is left out.

weight = w_t if low <= w_t <= high, else 0

From the report of Ring-1T (Ling team, arXiv 2510.18855), with low = 0.5 and high = 5.
"""

from assay_trainer.objective.corrections.row import CorrectionRow, EngineGap, Weights, kept_where


def _weigh(gap: EngineGap, low: float, high: float) -> Weights:
    weight_L = gap.log_weight_L.exp()
    return kept_where(weight_L, (weight_L >= low) & (weight_L <= high))


ROW = CorrectionRow(
    "icepop", "arXiv 2510.18855", "w if low <= w <= high, else 0", _weigh, low=0.5, high=5.0
)
