"""The rewards of a group, and the statistics that normalisations take of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from assay_shared.types import Normalisation

#: As in GRPO: keeps a group of nearly equal rewards from being blown up.
EPSILON = 1e-4

#: A value for each sample of a group; None for a sample without a reward.
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
    #: Samples that count in the statistics and are not learnt, by their place in the group.
    filtered: frozenset[int] = frozenset()

    @property
    def has_signal(self) -> bool:
        """Return True if two samples differ in their values, and a sample is learnt."""
        differ = any(len(set(present(column))) > 1 for column in self.columns)
        return differ and self.is_learnt

    @property
    def is_learnt(self) -> bool:
        """Return True if a sample has a reward and is not filtered out."""
        rewards = enumerate(self.rewards_G)
        return any(reward is not None and at not in self.filtered for at, reward in rewards)

    @property
    def columns(self) -> Sequence[Column]:
        by_component = self.normalise is Normalisation.COMPONENTS
        return self.components_KG if by_component else [self.rewards_G]


def present(column: Column) -> list[float]:
    """Return the values of the samples with a reward."""
    return [value for value in column if value is not None]


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation (n - 1); 0 for fewer than two values."""
    return stdev(values) if len(values) > 1 else 0.0


def scaled(column: Column, shift: float, divisor: float) -> list[float | None]:
    """Return (value - shift) / divisor of each sample with a reward."""
    return [None if value is None else (value - shift) / divisor for value in column]


def centred(column: Column, divisor: float = 1.0) -> list[float | None]:
    """Return each value minus the column's mean, over a divisor."""
    values = present(column)
    return scaled(column, fmean(values) if values else 0.0, divisor)


def whitened(columns: Sequence[Column]) -> list[list[float | None]]:
    """Return the columns with mean 0 and deviation 1 over all their values together."""
    values = [value for column in columns for value in present(column)]
    mean = fmean(values) if values else 0.0
    return [scaled(column, mean, deviation(values) + EPSILON) for column in columns]
