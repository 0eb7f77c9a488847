"""The goals of an ablation file: PASS, FAIL or INCONCLUSIVE by intervals over seeds and tasks."""

from collections.abc import Mapping, Sequence

from assay_trainer.ablation.ablation_config import START, GoalConfig
from assay_trainer.ablation.judging.crossed import CrossedMean, crossed_mean
from assay_trainer.ablation.judging.findings import GoalRow, JudgedVerdict
from assay_trainer.ablation.judging.judge import (
    LEAST_SEEDS,
    Key,
    against_bound,
    bounds_of,
    difference,
    is_from_0_to_1,
    within,
    within_difference,
)
from assay_trainer.ablation.judging.measurements import MeasuredArm, MeasuredRun


def judge_goals(
    goals: Sequence[GoalConfig],
    arms: Mapping[str, MeasuredArm],
    start: MeasuredRun,
    best: str | None,
    confidence: float,
) -> list[GoalRow]:
    """Return the goals with what was found on the first set; `best` is the first of the ranking."""
    first = next(iter(start.values), None)
    return [_judge(one, arms, start, best, confidence, first[0] if first else "") for one in goals]


def _judge(
    goal: GoalConfig,
    arms: Mapping[str, MeasuredArm],
    start: MeasuredRun,
    best: str | None,
    confidence: float,
    set_name: str,
) -> GoalRow:
    name = goal.arm or best
    told = f"{goal.metric} of {name or 'the best arm'}"
    told += f" minus {goal.against}" if goal.against else ""
    bound = goal.at_least if goal.at_least is not None else goal.at_most
    assert bound is not None
    told += f" {'at least' if goal.at_least is not None else 'at most'} {bound:g}"
    mean = _mean(goal, name, arms, start, (set_name, goal.metric))
    if mean is None:
        reason = "nothing was measured for it"
        return GoalRow(goal=told, found=None, verdict=JudgedVerdict.INCONCLUSIVE, reason=reason)
    verdict = against_bound(mean, bound, confidence, at_least=goal.at_least is not None)
    few = f"{mean.num_seeds} seeds decide nothing" if mean.num_seeds < LEAST_SEEDS else ""
    found = bounds_of(mean, confidence)
    if is_from_0_to_1(arms.values(), (set_name, goal.metric)):
        found = within(found, ()) if goal.against is None else within_difference(found)
    return GoalRow(goal=told, found=found, verdict=verdict, reason=few)


def _mean(
    goal: GoalConfig,
    name: str | None,
    arms: Mapping[str, MeasuredArm],
    start: MeasuredRun,
    key: Key,
) -> CrossedMean | None:
    arm = arms.get(name) if name else None
    if arm is None:
        return None
    if goal.against is not None:
        other = start if goal.against == START else arms.get(goal.against)
        return None if other is None else difference(arm, other, key)
    table = arm.table(key, arm.tasks(key), list(arm.runs))
    return crossed_mean(table) if table.size > 1 else None
