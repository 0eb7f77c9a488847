"""Group-relative advantages. Shapes: P prompts (groups), G samples of a group.

A sample without a reward (None) is no sample: it enters no mean and no deviation, and has no
advantage. Putting it at 0 would give a right answer among seven right ones -2.47.
"""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal

#: As in GRPO: keeps a group of nearly equal rewards from being blown up.
EPSILON = 1e-4

Scale = Literal["group", "batch", "none"]


def advantages(
    rewards_PG: Sequence[Sequence[float | None]], scale: Scale
) -> list[list[float | None]]:
    """A_i = (r_i - mean of its group) / (std + 1e-4), after arXiv 2402.03300, equation 8.

    Args:
        scale: the deviation to divide by: the group's own, that of the whole batch
            (arXiv 2508.08221), or none at all (Dr. GRPO, arXiv 2503.20783).
    """
    scored_PG = [[r for r in rewards if r is not None] for rewards in rewards_PG]
    batch_std = _std([r for scored in scored_PG for r in scored])
    result = []
    for rewards, scored in zip(rewards_PG, scored_PG, strict=True):
        mean = fmean(scored) if scored else 0.0
        std = {"group": _std(scored), "batch": batch_std, "none": None}[scale]
        divisor = 1.0 if std is None else std + EPSILON
        result.append([None if r is None else (r - mean) / divisor for r in rewards])
    return result


def has_signal(rewards_G: Sequence[float | None]) -> bool:
    """Whether a group can teach anything: at least two of its rewards differ."""
    return len({r for r in rewards_G if r is not None}) > 1


def _std(values: Sequence[float]) -> float:
    """The sample standard deviation (n - 1), 0 for fewer than two."""
    return stdev(values) if len(values) > 1 else 0.0
