"""DGRO (arXiv 2505.12951): policy gradient and distance from the sampling policy, weighed apart.

L = mean over sequences i of
    -policy_weight A_i log p(y_i) + distance_weight / 2 (log p(y_i) / p_old(y_i))^2

The paper's loss is -E[b1 (r - V) log p(y) - b2 (log p(y) / p_src(y))^2], with one coefficient for
the policy gradient and one for the distance, where Kimi k1.5 (arXiv 2501.12599, section 2.3.2) has
a single one. Here policy_weight is b1, distance_weight is 2 b2, the advantage stands for r - V, and
the source policy is the one that sampled. It is divided by `max_tokens`, as all constant averages.
"""

from assay_trainer.objective.losses.row import LossBounds, LossRow, LossTerms, unbounded
from assay_trainer.objective.sampled import Sampled, lengths_of_sequences, sums_of_sequences


def _terms(sampled: Sampled, bounds: LossBounds) -> LossTerms:
    distance_L = sums_of_sequences(sampled.log_ratio_L, sampled.sequence_L).square() / 2
    # A sequence's distance stands in each of its tokens: a part each, so that it counts once.
    part_L = distance_L / lengths_of_sequences(sampled.sequence_L)
    policy_L = -sampled.advantages_L * sampled.logprobs_L
    return unbounded(bounds.policy_weight * policy_L + bounds.distance_weight * part_L)


ROW = LossRow(
    "dgro",
    "arXiv 2505.12951",
    "-policy_weight A log p(y) + distance_weight / 2 (log p(y) / p_old(y))^2",
    "constant",
    frozenset({"policy_weight", "distance_weight"}),
    _terms,
    is_corrected=False,
)
