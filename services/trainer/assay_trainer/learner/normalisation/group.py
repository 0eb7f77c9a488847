"""GRPO (arXiv 2402.03300, section 4.1.2): A_i = (r_i - mean of group) / (std of group + 1e-4)."""

from collections.abc import Sequence

from assay_trainer.learner.normalisation.group_rewards import (
    EPSILON,
    GroupRewards,
    centred,
    deviation,
    present,
)


def by_group(groups_P: Sequence[GroupRewards]) -> list[list[float | None]]:
    """Return each reward minus its group's mean, over its group's deviation."""
    return [
        centred(group.rewards_G, deviation(present(group.rewards_G)) + EPSILON)
        for group in groups_P
    ]
