"""Advantages within a group as GRPO computes them (arXiv 2402.03300, section 4.1.2)."""

import statistics
from collections.abc import Sequence

EPSILON = 1e-4


def advantages_of(rewards_G: Sequence[float | None]) -> list[float | None]:
    """Return (reward - mean) / (deviation + 1e-4) for each of a group's G rewards, in order.

    A None stays None and enters neither the mean nor the deviation. A reward alone gets 0.
    """
    present = [one for one in rewards_G if one is not None]
    if not present:
        return [None] * len(rewards_G)
    mean = statistics.fmean(present)
    spread = (statistics.stdev(present) if len(present) > 1 else 0.0) + EPSILON
    return [None if one is None else (one - mean) / spread for one in rewards_G]
