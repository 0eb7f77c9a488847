"""Lite PPO (arXiv 2508.08221): A_i = (r_i - mean of group) / (std of all rewards + 1e-4)."""

from collections.abc import Sequence

from assay_trainer.learner.normalisation.group_rewards import (
    EPSILON,
    GroupRewards,
    centred,
    deviation,
    present,
)


def by_batch(groups_P: Sequence[GroupRewards]) -> list[list[float | None]]:
    """Return each reward minus its group's mean, over the deviation of the batch's rewards."""
    rewards = [reward for group in groups_P for reward in present(group.rewards_G)]
    divisor = deviation(rewards) + EPSILON
    return [centred(group.rewards_G, divisor) for group in groups_P]
