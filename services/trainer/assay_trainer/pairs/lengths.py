"""Lengths of chosen and rejected answers: a policy may learn length in place of quality."""

from collections.abc import Sequence
from typing import Any

from assay_shared.statistics.interval import normal_interval
from assay_trainer.pairs.judging import CONFIDENCE, as_number, share_of


def length_numbers(pairs: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    """Return how often and by how much chosen answers are longer, in characters.

    Args:
        pairs: the key of a prompt, its chosen and its rejected answer. Pairs of one prompt count
            as one observation.
    """
    longer: dict[str, list[float]] = {}
    differences: dict[str, list[float]] = {}
    for key, chosen, rejected in pairs:
        difference = len(chosen) - len(rejected)
        longer.setdefault(key, []).append(0.5 if difference == 0 else float(difference > 0))
        differences.setdefault(key, []).append(difference)
    shares, gaps = (
        [sum(some) / len(some) for some in one.values()] for one in (longer, differences)
    )
    return {
        "chosen_longer": share_of(sum(shares), len(shares)),
        "length_difference": as_number(normal_interval(gaps, CONFIDENCE)),
        "chosen_length": sum(len(one) for _, one, _ in pairs) / len(pairs) if pairs else 0.0,
        "rejected_length": sum(len(one) for _, _, one in pairs) / len(pairs) if pairs else 0.0,
    }
