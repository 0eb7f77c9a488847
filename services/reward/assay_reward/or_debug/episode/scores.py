"""Metrics of an episode, each under its own name, as formulas over plain values."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

#: Minimum optimality preservation to count as the same problem.
FAITHFUL_OPTIMALITY = 0.95
#: Minimum precision of a diagnosis: listing every row does not count as a diagnosis.
MEETING_PRECISION = 0.5
_SMALLEST_OBJECTIVE = 1e-9


@dataclass(frozen=True)
class Overlap:
    """Agreement of a claimed set with the true set; all three numbers are in [0, 1]."""

    recall: float
    precision: float
    jaccard: float


def overlap(claimed: Collection[str], true: Collection[str]) -> Overlap:
    """Return |C ∩ T| over |T|, over |C| and over |C ∪ T|; all are 0 for an empty claim.

    Raises:
        ValueError: the true set is empty: nothing can be measured against it.
    """
    if not true:
        raise ValueError("the true set is empty")
    claimed_set, true_set = set(claimed), set(true)
    common = len(claimed_set & true_set)
    return Overlap(
        recall=common / len(true_set),
        precision=common / len(claimed_set) if claimed_set else 0.0,
        jaccard=common / len(claimed_set | true_set),
    )


def meets(diagnosis: Overlap) -> bool:
    """Return True if a diagnosis names a root cause, and has at least the minimum precision."""
    return diagnosis.recall > 0 and diagnosis.precision >= MEETING_PRECISION


def recovered_within(optimal_after: Sequence[bool], k: int) -> bool:
    """Return RR@k of an episode: True if the model was optimal after any of the first k replies."""
    return any(optimal_after[:k])


def optimality_preservation(recovered: float | None, original: float) -> float:
    """Return OP = max(0, 1 - |z_rec - z_orig| / max(|z_orig|, 1e-9)), or 0 without recovery."""
    if recovered is None:
        return 0.0
    return max(0.0, 1.0 - abs(recovered - original) / max(abs(original), _SMALLEST_OBJECTIVE))


def share_kept(unchanged: Collection[str], names: Iterable[str], blamed: Collection[str]) -> float:
    """Return the unchanged share of `names` other than root causes; 1 if there are no others."""
    others = [name for name in names if name not in blamed]
    return sum(name in unchanged for name in others) / len(others) if others else 1.0
