"""The goals of an ablation file: PASS, FAIL or INCONCLUSIVE by intervals over seeds and tasks."""

from collections.abc import Mapping, Sequence

from assay_trainer.ablation.ablation_config import START, GoalConfig
from assay_trainer.ablation.judging.differences import (
    against_it,
    difference,
    is_from_0_to_1,
    mean_of,
    start_as_arm,
)
from assay_trainer.ablation.judging.findings import CountedAgainst, GoalRow, JudgedVerdict
from assay_trainer.ablation.judging.judge import (
    LEAST_SEEDS,
    against_bound,
    bounds_of,
    failed_case,
    within,
    within_difference,
)
from assay_trainer.ablation.judging.measurements import Key, MeasuredArm, MeasuredRun


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


def undecided(goals: Sequence[GoalConfig], reason: str) -> list[GoalRow]:
    """Return the goals of an ablation that decides nothing, each with the reason."""
    return [_undecided(one, one.arm, reason) for one in goals]


def _undecided(goal: GoalConfig, arm: str | None, reason: str) -> GoalRow:
    told = f"{goal.metric} of {arm or 'the best arm'}"
    told += f" minus {goal.against}" if goal.against else ""
    told += f" {'at least' if goal.at_least is not None else 'at most'} {_bound(goal):g}"
    return GoalRow(goal=told, found=None, verdict=JudgedVerdict.INCONCLUSIVE, reason=reason)


def _bound(goal: GoalConfig) -> float:
    bound = goal.at_least if goal.at_least is not None else goal.at_most
    assert bound is not None
    return bound


def _judge(
    goal: GoalConfig,
    arms: Mapping[str, MeasuredArm],
    start: MeasuredRun,
    best: str | None,
    confidence: float,
    set_name: str,
) -> GoalRow:
    name, key = goal.arm or best, (set_name, goal.metric)
    bound = _bound(goal)
    nothing = _undecided(goal, name, "nothing was measured for it")
    arm = arms.get(name) if name else None
    other = _other(goal, arm, arms, start)
    if arm is None or (other is None and goal.against is not None):
        return nothing
    mean = mean_of(arm, key) if other is None else difference(arm, other, key)
    if mean is None:
        return nothing
    alone = against_bound(mean, bound, confidence, at_least=goal.at_least is not None)
    few = f"{mean.num_seeds} seeds decide nothing" if mean.num_seeds < LEAST_SEEDS else ""
    found = bounds_of(mean, confidence)
    if is_from_0_to_1(arms.values(), key):
        found = within(found, key[1], ()) if goal.against is None else within_difference(found)
    verdict, case = _with_failed(alone, goal, bound, (arm, other), key, confidence)
    return GoalRow(goal=nothing.goal, found=found, verdict=verdict, reason=few, failed=case)


def _other(
    goal: GoalConfig,
    arm: MeasuredArm | None,
    arms: Mapping[str, MeasuredArm],
    start: MeasuredRun,
) -> MeasuredArm | None:
    """Return the other side of a goal; None of a goal for the value itself."""
    if goal.against == START:
        return start_as_arm(start, arm.runs if arm is not None else ())
    return arms.get(goal.against) if goal.against is not None else None


def _with_failed(
    alone: JudgedVerdict,
    goal: GoalConfig,
    bound: float,
    pair: tuple[MeasuredArm, MeasuredArm | None],
    key: Key,
    confidence: float,
) -> tuple[JudgedVerdict, CountedAgainst | None]:
    """Return the verdict with failed samples counted against it."""
    is_least = goal.at_least is not None
    case = against_it(*pair, key, is_rise=(alone is not JudgedVerdict.FAIL) == is_least)
    if case is None:
        return alone, None
    verdict = JudgedVerdict.INCONCLUSIVE
    if case.found is not None:
        verdict = against_bound(case.found, bound, confidence, at_least=is_least)
    told = failed_case(case, alone, confidence)
    return alone if verdict is alone else JudgedVerdict.INCONCLUSIVE, told
