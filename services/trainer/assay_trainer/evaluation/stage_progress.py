"""The progress of a curriculum: held-out tasks of its stages, and the end of each stage."""

import random
from collections.abc import Callable, Sequence

from pydantic import BaseModel

from assay_shared.statistics.interval import Interval, wilson_bounds
from assay_shared.types import PolicyVersion, Task
from assay_trainer.curriculum.selection import StageTasks
from assay_trainer.curriculum.staged_order import FinishedStep, StagedOrder
from assay_trainer.curriculum_config import CurriculumConfig
from assay_trainer.evaluation.evaluator import TaskEvaluation
from assay_trainer.events import CurriculumAdvanced, CurriculumMeasured

_CONFIDENCE = 0.95
#: Runs of all seeds measure the same tasks, so they can be compared.
_LIMIT_SEED = 0
Evaluate = Callable[[str, list[Task], PolicyVersion], TaskEvaluation]
Record = Callable[[str, BaseModel], None]


class StageProgress:
    """Measures the stages and tells the order when a stage has ended."""

    def __init__(
        self,
        config: CurriculumConfig,
        order: StagedOrder,
        held_out: Sequence[StageTasks],
        evaluate: Evaluate,
        record: Record,
    ) -> None:
        """Store the parts; `held_out` has the held-out tasks of each stage."""
        self._config = config
        self._order = order
        self._evaluate = evaluate
        self._record = record
        limit = None if config.measure is None else config.measure.limit
        self._held_out = {one.name: _limited(one, limit) for one in held_out}

    def on_served(self, done: FinishedStep, served: PolicyVersion) -> None:
        """Take a finished step into account, whose weights are served.

        Raises:
            BudgetExceeded: too many held-out tasks have no score.
            Stopped: a stop was requested.
        """
        learnt, found = self._order.stage, None
        if learnt is None:
            return
        until = next(one.until for one in self._config.stages if one.name == learnt)
        if self._order.is_measured_next and until is not None:
            found = self._measure(done.step, learnt, [learnt], until.confidence, served)[learnt]
        ended = self._order.finish_step(done, found)
        if ended is None:
            return
        if self._config.measure is not None:
            others = [name for name in self._held_out if found is None or name != learnt]
            self._measure(done.step, learnt, others, _CONFIDENCE, served)
        told = CurriculumAdvanced(
            step=done.step, ended=ended.ended, to=ended.to, reason=ended.reason
        )
        self._record("curriculum_advanced", told)

    def _measure(
        self,
        step: int,
        learnt: str,
        stages: Sequence[str],
        confidence: float,
        served: PolicyVersion,
    ) -> dict[str, Interval]:
        """Return the pass rate of each stage, and record it."""
        tasks = {task.id: task for name in stages for task in self._held_out[name]}
        if not tasks:
            return {}
        name = f"curriculum-{step}-{len(stages)}"
        rates = self._evaluate(name, list(tasks.values()), served).pass_at(1)
        found = {}
        for stage in stages:
            own = [rates[task.id] for task in self._held_out[stage] if task.id in rates]
            if not own:
                continue
            found[stage] = share_over_tasks(own, confidence)
            told = CurriculumMeasured(
                step=step, learnt=learnt, stage=stage, num_tasks=len(own), pass_rate=found[stage]
            )
            self._record("curriculum_measured", told)
        return found


def share_over_tasks(shares: Sequence[float], confidence: float) -> Interval:
    """Return the mean of the tasks' shares with Wilson's interval over tasks.

    A task counts as one observation however often it is sampled. So the interval is never too
    short, and has a width even if all tasks are solved, unlike a bootstrap.
    """
    mean = sum(shares) / len(shares)
    return Interval(mean, *wilson_bounds(mean, len(shares), confidence))


def _limited(stage: StageTasks, limit: int | None) -> list[Task]:
    if limit is None or limit >= len(stage.tasks):
        return list(stage.tasks)
    ids = sorted(task.id for task in stage.tasks)
    chosen = set(random.Random(f"{_LIMIT_SEED}/{stage.name}").sample(ids, limit))
    return [task for task in stage.tasks if task.id in chosen]
