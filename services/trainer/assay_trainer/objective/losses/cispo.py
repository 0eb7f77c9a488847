"""CISPO (arXiv 2506.13585, eq. 4): the ratio is a weight with an upper bound, and no gradient.

L = 1 / (sum of all |y|) times the sum over all tokens of
    -min(r_t, 1 + clip_high) A_i log p(y_t),  with the first factor held fixed

So no token loses its gradient. There is no lower bound.
"""

from assay_trainer.objective.losses.row import LossBounds, LossRow, LossTerms, unbounded
from assay_trainer.objective.sampled import Sampled


def _terms(sampled: Sampled, bounds: LossBounds) -> LossTerms:
    ratio_L = sampled.log_ratio_L.exp().detach()
    weight_L = ratio_L.clamp(max=1 + bounds.clip_high)
    found = unbounded(-weight_L * sampled.advantages_L * sampled.logprobs_L)
    high_L = (ratio_L > 1 + bounds.clip_high) & (sampled.advantages_L > 0)
    return LossTerms(found.terms_L, found.low_L, high_L)


ROW = LossRow(
    "cispo",
    "arXiv 2506.13585",
    "-min(r, 1 + high) A log p, the weight held fixed",
    "token",
    frozenset({"clip_high"}),
    _terms,
    is_corrected=False,
)
