"""Group-relative advantages. Shapes: P prompts (groups), G samples of a group, K components.

A sample without a reward (None) enters neither the mean nor the deviation, and has no advantage. As
a 0 it would give a right answer among seven right answers an advantage of -2.47.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from assay_shared.errors import InvalidInput
from assay_shared.types import Normalisation, Scored, ScoredGroup

#: As in GRPO: keeps a group of nearly equal rewards from being blown up.
EPSILON = 1e-4

Column = Sequence[float | None]


@dataclass(frozen=True)
class GroupRewards:
    """The rewards of a group, and their normalisation.

    `Normalisation.COMPONENTS` alone reads the components.
    """

    rewards_G: Column
    normalise: Normalisation = Normalisation.GROUP
    weights_K: Sequence[float] = ()
    components_KG: Sequence[Column] = ()

    @property
    def has_signal(self) -> bool:
        """Return True if the group can teach: two samples differ in their normalised values."""
        return any(len({r for r in column if r is not None}) > 1 for column in self.columns)

    @property
    def columns(self) -> Sequence[Column]:
        by_component = self.normalise is Normalisation.COMPONENTS
        return self.components_KG if by_component else [self.rewards_G]


def group_rewards(scored: ScoredGroup, normalise: Normalisation) -> GroupRewards:
    """Return a stored group's rewards, to be normalised in this way."""
    rewards = [r if isinstance(r, Scored) else None for r in scored.rewards]
    first = next((r for r in rewards if r is not None), None)
    counted = {c.name: c.weight for c in first.components if c.weight > 0} if first else {}
    tables = [None if r is None else {c.name: c.value for c in r.components} for r in rewards]
    return GroupRewards(
        [None if r is None else r.value for r in rewards],
        normalise,
        list(counted.values()),
        [[None if table is None else table[name] for table in tables] for name in counted],
    )


def advantages(groups_P: Sequence[GroupRewards]) -> list[list[float | None]]:
    """Return an advantage for each sample, by the normalisation of its group.

    `group`: (r_i - mean) / (std + 1e-4), after arXiv 2402.03300, section 4.1.2. `batch`: over the
    deviation of all such groups (arXiv 2508.08221). `none`: r_i - mean (Dr. GRPO, arXiv
    2503.20783). `components`: `group` for each component, weighted and summed, then normalised
    over the batch (GDPO, arXiv 2601.05242, equations 4 to 6).

    Raises:
        InvalidInput: a reward or a component is not a finite number, or a sample with a reward
            lacks a component.
    """
    for group in groups_P:
        _check(group)
    batch_std = _std(
        [
            reward
            for group in groups_P
            if group.normalise is Normalisation.BATCH
            for reward in _present(group.rewards_G)
        ]
    )
    advantages_PG = [_of_group(group, batch_std) for group in groups_P]
    by_component = [
        index for index, g in enumerate(groups_P) if g.normalise is Normalisation.COMPONENTS
    ]
    normalised = _over_the_batch([advantages_PG[index] for index in by_component])
    for index, row in zip(by_component, normalised, strict=True):
        advantages_PG[index] = row
    return advantages_PG


def _check(group: GroupRewards) -> None:
    for value in _present([*group.rewards_G, *(v for c in group.components_KG for v in c)]):
        if not math.isfinite(value):
            raise InvalidInput(f"a reward of {value} is not a finite number", field="rewards")
    if group.normalise is Normalisation.COMPONENTS:
        for column in group.components_KG:
            pairs = zip(group.rewards_G, column, strict=True)
            if any(reward is not None and part is None for reward, part in pairs):
                raise InvalidInput("a sample has a reward, but lacks a component", field="rewards")


def _of_group(group: GroupRewards, batch_std: float) -> list[float | None]:
    if group.normalise is Normalisation.COMPONENTS:
        return _sum_of_components(group)
    divisor = {
        Normalisation.GROUP: _std(_present(group.rewards_G)) + EPSILON,
        Normalisation.BATCH: batch_std + EPSILON,
        Normalisation.NONE: 1.0,
    }[group.normalise]
    return _centred(group.rewards_G, divisor)


def _sum_of_components(group: GroupRewards) -> list[float | None]:
    """Normalise each component within its group; return their weighted sum."""
    columns = [_centred(c, _std(_present(c)) + EPSILON) for c in group.components_KG]
    weighted = list(zip(group.weights_K, columns, strict=True))
    return [
        None if reward is None else sum(weight * (column[at] or 0.0) for weight, column in weighted)
        for at, reward in enumerate(group.rewards_G)
    ]


def _over_the_batch(rows: Sequence[Column]) -> list[list[float | None]]:
    """Scale all advantages of the rows to mean 0 and deviation 1."""
    present = [value for row in rows for value in _present(row)]
    mean = fmean(present) if present else 0.0
    divisor = _std(present) + EPSILON
    return [[None if a is None else (a - mean) / divisor for a in row] for row in rows]


def _centred(column: Column, divisor: float) -> list[float | None]:
    present = _present(column)
    mean = fmean(present) if present else 0.0
    return [None if value is None else (value - mean) / divisor for value in column]


def _present(column: Column) -> list[float]:
    return [value for value in column if value is not None]


def _std(values: Sequence[float]) -> float:
    """Return the sample standard deviation (n - 1); 0 for fewer than two values."""
    return stdev(values) if len(values) > 1 else 0.0
