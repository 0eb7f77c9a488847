"""REINFORCE: the gradient of the log-probability times the advantage, without a ratio.

L = 1 / (S max_tokens) times the sum over all tokens of -A_i log p(y_t)

With `normalise: rloo` it is RLOO (arXiv 2402.14740, eq. 8), whose terms are of whole sequences:
hence the constant length. No ratio corrects for another policy that sampled the tokens; with a
correction, its weights do.
"""

from assay_trainer.objective.losses.row import LossBounds, LossRow, LossTerms, unbounded
from assay_trainer.objective.sampled import Sampled


def _terms(sampled: Sampled, _: LossBounds) -> LossTerms:
    return unbounded(-sampled.advantages_L * sampled.logprobs_L)


ROW = LossRow("reinforce", "arXiv 2402.14740", "-A log p", "constant", frozenset(), _terms)
