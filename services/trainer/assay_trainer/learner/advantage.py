"""Group-relative advantages. Shapes: P prompts (groups), G samples of a group, K components.

A sample without a reward (None) enters neither the mean nor the deviation, and has no advantage. As
a 0 it would give a right answer among seven right answers an advantage of -2.47.
"""

import math
from collections.abc import Callable, Sequence

from assay_shared.errors import InvalidInput
from assay_shared.types import Normalisation, Scored, ScoredGroup
from assay_trainer.learner.normalisation.batch import by_batch
from assay_trainer.learner.normalisation.components import by_component
from assay_trainer.learner.normalisation.group import by_group
from assay_trainer.learner.normalisation.group_rewards import GroupRewards, present
from assay_trainer.learner.normalisation.none import by_mean
from assay_trainer.learner.normalisation.overlong import Overlong
from assay_trainer.learner.normalisation.reinforce_pp import over_batch, over_batch_with_baseline
from assay_trainer.learner.normalisation.rloo import leave_one_out

NORMALISATIONS: dict[
    Normalisation, Callable[[Sequence[GroupRewards]], list[list[float | None]]]
] = {
    Normalisation.GROUP: by_group,
    Normalisation.BATCH: by_batch,
    Normalisation.NONE: by_mean,
    Normalisation.RLOO: leave_one_out,
    Normalisation.REINFORCE_PP: over_batch,
    Normalisation.REINFORCE_PP_BASELINE: over_batch_with_baseline,
    Normalisation.COMPONENTS: by_component,
}


def group_rewards(
    scored: ScoredGroup, normalise: Normalisation, overlong: Overlong | None = None
) -> GroupRewards:
    """Return a stored group's rewards, to be normalised in this way."""
    rewards = [r if isinstance(r, Scored) else None for r in scored.rewards]
    first = next((r for r in rewards if r is not None), None)
    counted = {c.name: c.weight for c in first.components if c.weight > 0} if first else {}
    tables = [None if r is None else {c.name: c.value for c in r.components} for r in rewards]
    found = GroupRewards(
        [None if r is None else r.value for r in rewards],
        normalise,
        list(counted.values()),
        [[None if table is None else table[name] for table in tables] for name in counted],
    )
    return found if overlong is None else _with_lengths(found, scored, overlong)


def _with_lengths(found: GroupRewards, scored: ScoredGroup, overlong: Overlong) -> GroupRewards:
    """Return the rewards with the rule for answers at their length limit applied."""
    rollouts = scored.group.rollouts
    column = [
        None if reward is None else overlong.punishment(rollout)
        for reward, rollout in zip(found.rewards_G, rollouts, strict=True)
    ]
    punished = [
        None if reward is None or length is None else reward + overlong.factor * length
        for reward, length in zip(found.rewards_G, column, strict=True)
    ]
    is_component = any(column)  # a rubric's components alone tell of a group without such answers
    return GroupRewards(
        punished,
        found.normalise,
        [*found.weights_K, overlong.factor] if is_component else found.weights_K,
        [*found.components_KG, column] if is_component else found.components_KG,
        frozenset(at for at, rollout in enumerate(rollouts) if overlong.drops(rollout)),
    )


def advantages(groups_P: Sequence[GroupRewards]) -> list[list[float | None]]:
    """Return an advantage for each sample to learn, by the normalisation of its group.

    Raises:
        InvalidInput: a reward or a component is not a finite number, or a sample with a reward
            lacks a component.
    """
    for group in groups_P:
        _check(group)
    found: dict[int, list[float | None]] = {}
    for kind, normalised in NORMALISATIONS.items():
        places = [at for at, group in enumerate(groups_P) if group.normalise is kind]
        found |= zip(places, normalised([groups_P[at] for at in places]), strict=True)
    return [
        [None if at in group.filtered else value for at, value in enumerate(found[place])]
        for place, group in enumerate(groups_P)
    ]


def _check(group: GroupRewards) -> None:
    for value in present([*group.rewards_G, *(v for c in group.components_KG for v in c)]):
        if not math.isfinite(value):
            raise InvalidInput(f"a reward of {value} is not a finite number", field="rewards")
    if group.normalise is Normalisation.COMPONENTS:
        for column in group.components_KG:
            pairs = zip(group.rewards_G, column, strict=True)
            if any(reward is not None and part is None for reward, part in pairs):
                raise InvalidInput("a sample has a reward, but lacks a component", field="rewards")
