"""Reward formulas: the composite reward as in its document, and the parts of single turns."""

from assay_reward.or_debug.episode.episode import State
from assay_reward.or_debug.models.instance import Instance

OUTCOME_OPTIMAL, OUTCOME_OTHERWISE = 100.0, -50.0
DIAGNOSIS_SCALE = 20.0
QUICK_STEPS, QUICK_REWARD = 2, 10.0
MODEST_STEPS, MODEST_REWARD = 5, 5.0
LATE_STEP_COST = 2.0


def outcome_reward(optimal: bool) -> float:
    """Return 100 if the model is optimal in the end, else -50."""
    return OUTCOME_OPTIMAL if optimal else OUTCOME_OTHERWISE


def diagnosis_reward(recall: float) -> float:
    """Return 20 times the recall of the irreducible set."""
    return DIAGNOSIS_SCALE * recall


def efficiency_reward(steps: int) -> float:
    """Return 10 for up to 2 steps, 5 for up to 5, else -2 (steps - 5)."""
    if steps <= QUICK_STEPS:
        return QUICK_REWARD
    if steps <= MODEST_STEPS:
        return MODEST_REWARD
    return -LATE_STEP_COST * (steps - MODEST_STEPS)


def process_parts(instance: Instance, before: State, after: State) -> dict[str, float]:
    """Return the effects of the last turn, each part under its own name and without a sum.

    `valid`: 1 if the action was done. `recovered`: 1 if the turn made the model optimal, -1 if it
    undid this. `root_cause`, `iis`: the increase in the number of changed members of the root
    cause, and of the stored irreducible set. `others`: the same for all other rows and columns.
    """
    root, members = set(instance.root_cause), iis_names(instance)
    was, now = set(before.changed), set(after.changed)
    return {
        "valid": float(after.steps[-1].action is not None),
        "recovered": float(after.outcome.is_optimal) - float(before.outcome.is_optimal),
        "root_cause": float(len(now & root) - len(was & root)),
        "iis": float(len(now & members) - len(was & members)),
        "others": float(len(now - root - members) - len(was - root - members)),
    }


def iis_names(instance: Instance) -> set[str]:
    """Return the names of the rows and columns in the stored irreducible set."""
    return {*instance.iis.rows, *(bound.column for bound in instance.iis.bounds)}
