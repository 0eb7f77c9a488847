"""Biases of a judge: the answer's length, its position, and its author model."""

import re
from collections.abc import Sequence

from assay_judge.calibration import statistics
from assay_judge.calibration.log import Winner
from assay_judge.calibration.observations import Observation
from assay_judge.calibration_record import Estimate, PositionBias, SelfPreference

_FAMILY = re.compile(r"[a-z]+")


def length_bias(observations: Sequence[Observation]) -> Estimate | None:
    """Return the length bias: above 0, the judge favours long answers.

    It is the correlation, over decided examples, of saying CORRECT with the rank of the answer's
    length in characters, both centred within the gold label. The gold label is held fixed because
    right answers may well be longer than wrong answers.
    """
    decided = [one for one in observations if one.is_decided]
    return statistics.stratified_correlation(
        [one.says_correct for one in decided],
        [len(one.example.answer) for one in decided],
        [one.example.is_correct for one in decided],
    )


def position_bias(winners: Sequence[tuple[Winner, Winner]]) -> PositionBias | None:
    """Return the position bias; None without pairs.

    `winners` has, for each pair, the winner with A first and the winner with B first.
    """
    flips = statistics.proportion(sum(ab != ba for ab, ba in winners), len(winners))
    if flips is None:
        return None
    num_first, num_second = winners.count(("A", "B")), winners.count(("B", "A"))
    first_of_flips = statistics.proportion(num_first, num_first + num_second)
    return PositionBias(flips=flips, first_of_flips=first_of_flips)


def self_preference(
    model: str | None, observations: Sequence[Observation]
) -> SelfPreference | None:
    """Return the false-positive rates on wrong answers of the judge's own family and of others.

    None for a judge without a model, and if either group has no decided wrong answers.
    """
    own_family = None if model is None else family(model)
    if own_family is None:
        return None
    rates: dict[bool, Estimate | None] = {}
    for is_own in (True, False):
        wrong = [
            one
            for one in observations
            if one.is_decided
            and not one.example.is_correct
            and one.example.source_model is not None
            and (family(one.example.source_model) == own_family) is is_own
        ]
        rates[is_own] = statistics.proportion(sum(one.says_correct for one in wrong), len(wrong))
    own, others = rates[True], rates[False]
    if own is None or others is None:
        return None
    return SelfPreference(
        family=own_family,
        own=own,
        others=others,
        difference=statistics.difference(own, others),
    )


def family(model: str) -> str | None:
    """Return the first letters of a model's name, without its owner: qwen for `Qwen/Qwen3-8B`."""
    found = _FAMILY.search(model.rpartition("/")[2].casefold())
    return found.group() if found else None
