"""Goals of a study, decided by intervals."""

import math
from collections.abc import Sequence

from assay_reward.or_debug.episode.metrics import is_share
from assay_reward.or_debug.evaluate.evaluation import EpisodeRecord
from assay_reward.or_debug.evaluate.intervals import (
    SHARE_ENDS,
    CellEstimate,
    TargetVerdict,
    estimate_difference,
    estimate_series,
    judge,
)
from assay_reward.or_debug.evaluate.summary import has_all, rate, reaching, values_by_task
from assay_reward.or_debug.study.loading import StudiedResult, StudyResults
from assay_reward.or_debug.study.study_file import REWARD_VARIANCE, StudyGoal
from assay_shared.errors import ConfigError
from assay_shared.types import Wire


class GoalFinding(Wire):
    """A goal with what was found, and the verdict of the interval."""

    goal: str
    policy: str
    found: CellEstimate | None
    verdict: TargetVerdict


def decide(study: StudyResults) -> list[GoalFinding]:
    """Return the finding of each goal; without a value, a goal is INCONCLUSIVE.

    Raises:
        ConfigError: no episode has a goal's metric, or its policy has no training run.
    """
    return [_decide(study, goal) for goal in study.file.goals]


def _decide(study: StudyResults, goal: StudyGoal) -> GoalFinding:
    result = study.of(goal.policy or study.file.final)
    low = -math.inf if goal.at_least is None else goal.at_least
    high = math.inf if goal.at_most is None else goal.at_most
    found = _found(study, goal, result)
    verdict = TargetVerdict.INCONCLUSIVE if found is None else judge(found, low, high, goal.ends)
    return GoalFinding(goal=_words(goal), policy=result.name, found=found, verdict=verdict)


def _found(study: StudyResults, goal: StudyGoal, result: StudiedResult) -> CellEstimate | None:
    if goal.metric == REWARD_VARIANCE:
        if result.training is None:
            raise ConfigError(
                f"{result.name} has no run to read it from", field=f"goals {goal.metric}"
            )
        values = result.training.reward_variances
        return estimate_series(values) if values else None
    own = rate(result.records, goal.metric, goal.difficulty)
    if own is None:
        raise ConfigError(
            f"no episode of {result.name} has it"
            + (f" among {goal.difficulty} tasks" if goal.difficulty else ""),
            field=f"goals {goal.metric}",
        )
    if goal.over_start:
        return difference(study.start.records, result.records, goal.metric, goal.difficulty)
    return own


def difference(
    before: Sequence[EpisodeRecord],
    after: Sequence[EpisodeRecord],
    metric: str,
    difficulty: str | None = None,
) -> CellEstimate | None:
    """Return the mean of `after - before` over the tasks that both have; see `rate`."""

    def found(old: float | None, new: float | None) -> CellEstimate | None:
        first = values_by_task(before, metric, difficulty, old)
        second = values_by_task(after, metric, difficulty, new)
        both = [task for task in first if task in second]
        if not both:
            return None
        sides = [first[task] for task in both], [second[task] for task in both]
        return estimate_difference(*sides, is_share=is_share(metric))

    known = found(None, None)
    if known is None or not is_share(metric) or has_all([*before, *after], metric):
        return known
    least, most = SHARE_ENDS
    return reaching(known, found(most, least), found(least, most))


def _words(goal: StudyGoal) -> str:
    where = f" of {goal.difficulty} tasks" if goal.difficulty else ""
    over = " over the start" if goal.over_start else ""
    if goal.at_least is not None and goal.at_most is not None:
        bound = f"between {goal.at_least:g} and {goal.at_most:g}"
    elif goal.at_least is not None:
        bound = f"at least {goal.at_least:g}"
    else:
        bound = f"at most {goal.at_most:g}"
    return f"{goal.metric}{where}{over}: {bound}"
