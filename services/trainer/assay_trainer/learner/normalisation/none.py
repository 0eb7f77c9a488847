"""Dr. GRPO (arXiv 2503.20783): A_i = r_i - mean of group."""

from collections.abc import Sequence

from assay_trainer.learner.normalisation.group_rewards import GroupRewards, centred


def by_mean(groups_P: Sequence[GroupRewards]) -> list[list[float | None]]:
    """Return each reward minus its group's mean."""
    return [centred(group.rewards_G) for group in groups_P]
