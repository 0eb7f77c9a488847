"""REINFORCE++ (arXiv 2501.03262): advantages normalised over the whole batch.

`reinforce_pp`: A_i = (r_i - mean of batch) / (std of batch + 1e-4). A group of equal rewards has an
advantage if its rewards are not the batch's mean. `reinforce_pp_baseline`: the group's mean is
taken away first, and then the batch is normalised: A_i = (a_i - mean of a) / (std of a + 1e-4).
"""

from collections.abc import Sequence

from assay_trainer.learner.normalisation.group_rewards import GroupRewards, centred, whitened


def over_batch(groups_P: Sequence[GroupRewards]) -> list[list[float | None]]:
    """Return the rewards with mean 0 and deviation 1 over the batch."""
    return whitened([group.rewards_G for group in groups_P])


def over_batch_with_baseline(groups_P: Sequence[GroupRewards]) -> list[list[float | None]]:
    """Return the distances to the groups' means, with deviation 1 over the batch."""
    return whitened([centred(group.rewards_G) for group in groups_P])
