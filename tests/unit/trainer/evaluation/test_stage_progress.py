"""Stages are measured on their own held-out tasks, and end by what was measured."""

from pydantic import BaseModel

from assay_shared.types import PolicyVersion, Status, Task
from assay_trainer.curriculum.selection import stage_tasks
from assay_trainer.curriculum.staged_order import FinishedStep
from assay_trainer.curriculum_config import CurriculumConfig
from assay_trainer.evaluation.evaluator import EvaluationSample, TaskEvaluation, TaskResult
from assay_trainer.evaluation.stage_progress import StageProgress, share_over_tasks
from assay_trainer.events import CurriculumAdvanced, CurriculumMeasured
from tests.unit.trainer.curriculum.stages import TASKS, curriculum, order_of, stage

SERVED = PolicyVersion(version=1, digest="d")


class Measured:
    """Held-out tasks of which all easy ones are solved; keeps what was asked and recorded."""

    def __init__(self, config: CurriculumConfig) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.recorded: list[BaseModel] = []
        self.order = order_of(config)
        self.progress = StageProgress(
            config,
            self.order,
            stage_tasks(config, TASKS, "held-out"),
            self.evaluate,
            lambda kind, found: self.recorded.append(found),
        )

    def evaluate(self, name: str, tasks: list[Task], served: PolicyVersion) -> TaskEvaluation:
        self.asked.append((name, [task.id for task in tasks]))
        outcomes = {True: Status.ACCEPTED, False: Status.WRONG_ANSWER}
        results = [
            TaskResult(
                task_id=task.id,
                prompt="",
                tags=task.tags,
                samples=[EvaluationSample(text="", outcome=outcomes[task.id.startswith("easy")])],
            )
            for task in tasks
        ]
        return TaskEvaluation(name=name, policy=served, confidence=0.95, results=results)

    def finish(self, num_steps: int) -> None:
        for step in range(1, num_steps + 1):
            self.order.has(2 * step)
            self.progress.on_served(FinishedStep(step, (), 2 * step, ()), SERVED)


def test_every_stage_is_measured_at_the_end_of_each() -> None:
    found = Measured(curriculum(stage("a", "easy", steps=2), stage("b", "hard", steps=2)))
    found.finish(4)
    measured = [one for one in found.recorded if isinstance(one, CurriculumMeasured)]
    assert [(one.step, one.learnt, one.stage, one.num_tasks) for one in measured] == [
        (2, "a", "a", 6),
        (2, "a", "b", 6),
        (4, "b", "a", 6),
        (4, "b", "b", 6),
    ]
    assert [one.pass_rate.value for one in measured] == [1, 0, 1, 0]
    ends = [one for one in found.recorded if isinstance(one, CurriculumAdvanced)]
    assert [(one.step, one.ended, one.to) for one in ends] == [(2, "a", "b"), (4, "b", None)]


def test_six_solved_tasks_do_not_prove_a_pass_rate_of_seven_tenths() -> None:
    until = {"pass_rate": 0.7, "min_steps": 1, "max_steps": 3, "every": 1}
    found = Measured(curriculum(stage("a", "easy", until=until), stage("b", "hard", steps=1)))
    found.finish(3)
    (end,) = [one for one in found.recorded if isinstance(one, CurriculumAdvanced)]
    assert (end.step, end.reason) == (3, "its most steps, 3"), "its lower bound is 0.61"
    until["pass_rate"] = 0.6
    found = Measured(curriculum(stage("a", "easy", until=until), stage("b", "hard", steps=1)))
    found.finish(1)
    assert isinstance(found.recorded[-1], CurriculumAdvanced)


def test_a_limit_takes_the_same_tasks_every_time() -> None:
    config = curriculum(stage("a", "easy", steps=1), measure={"limit": 3})
    asked = []
    for _ in range(2):
        found = Measured(config)
        found.finish(1)
        asked.append(found.asked)
    assert asked[0] == asked[1]
    assert len(asked[0][0][1]) == 3


def test_nothing_is_measured_where_measure_is_null() -> None:
    found = Measured(curriculum(stage("a", "easy", steps=1), measure=None))
    found.finish(1)
    assert found.asked == []
    assert [type(one) for one in found.recorded] == [CurriculumAdvanced]


def test_tasks_are_the_observations_however_often_they_are_sampled() -> None:
    few, many = share_over_tasks([1.0] * 6, 0.95), share_over_tasks([1.0] * 60, 0.95)
    assert few.low < 0.62 < many.low < 1.0 == many.high
