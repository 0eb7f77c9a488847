"""RLOO (arXiv 2402.14740): A_i = r_i - mean of the group's other rewards.

With n rewards in the group, that is n / (n - 1) times the distance to the group's mean.
"""

from collections.abc import Sequence

from assay_trainer.learner.normalisation.group_rewards import (
    Column,
    GroupRewards,
    centred,
    present,
)


def leave_one_out(groups_P: Sequence[GroupRewards]) -> list[list[float | None]]:
    """Return each reward minus the mean of the others; 0 for a reward without others."""
    return [_of_group(group.rewards_G) for group in groups_P]


def _of_group(rewards_G: Column) -> list[float | None]:
    num = len(present(rewards_G))
    return centred(rewards_G, (num - 1) / num if num > 1 else 1.0)
