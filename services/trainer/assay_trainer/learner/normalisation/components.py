"""GDPO (arXiv 2601.05242, equations 4 to 6): each component has its own scale.

Component k of sample i: A_ik = (r_ik - mean of group) / (std of group + 1e-4). The advantage is the
weighted sum over k, normalised over the batch to mean 0 and deviation 1.
"""

from collections.abc import Sequence

from assay_trainer.learner.normalisation.group_rewards import (
    EPSILON,
    GroupRewards,
    centred,
    deviation,
    present,
    whitened,
)


def by_component(groups_P: Sequence[GroupRewards]) -> list[list[float | None]]:
    """Return the weighted sums of the components' advantages, normalised over the batch."""
    return whitened([_weighted_sum(group) for group in groups_P])


def _weighted_sum(group: GroupRewards) -> list[float | None]:
    columns = [centred(c, deviation(present(c)) + EPSILON) for c in group.components_KG]
    weighted = list(zip(group.weights_K, columns, strict=True))
    return [
        None if reward is None else sum(weight * (column[at] or 0.0) for weight, column in weighted)
        for at, reward in enumerate(group.rewards_G)
    ]
