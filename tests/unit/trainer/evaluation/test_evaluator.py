"""Requests of an evaluation, and its samples of the measured weights."""

import pytest

from assay_shared.errors import BudgetExceeded
from assay_shared.types import GroupRequest, PolicyVersion, ScoredGroup, Status
from assay_trainer.config import EvaluationConfig
from assay_trainer.evaluation.evaluator import (
    EvaluationSample,
    Evaluator,
    TaskEvaluation,
    TaskResult,
    difference,
    measured_differences,
    only_of,
)
from assay_trainer.rollouts.set_aside import SetAside
from tests.support.fakes import POLICY, make_scored_group, make_task


def test_only_samples_of_the_measured_weights_count() -> None:
    scored = make_scored_group("g", 1.0, 0.0)
    assert only_of(POLICY, scored) is scored
    for other in (PolicyVersion(version=2, digest="d1"), PolicyVersion(version=1, digest="d2")):
        refused = only_of(other, scored)
        assert refused.rewards == ()
        assert refused.failure is not None
        message = f"sampled by version 1 where version {other.version} is measured"
        assert refused.failure.message == message


class Rollouts:
    """Plays each request at once: all right."""

    def __init__(self) -> None:
        self.sent: list[GroupRequest] = []
        self.num_in_flight = 0

    def send(self, request: GroupRequest) -> None:
        self.sent.append(request)
        self.num_in_flight += 1

    def collect(self, wait_s: float) -> list[ScoredGroup]:
        asked, self.num_in_flight = self.sent[-self.num_in_flight :], 0
        return [make_scored_group(one.key, 1.0, task=one.task) for one in asked]


def evaluator_of(rollouts: Rollouts, config: EvaluationConfig) -> Evaluator:
    return Evaluator(
        rollouts,  # type: ignore[arg-type]  # a stand-in of the same shape
        config,
        run="r",
        seed=0,
        set_aside=SetAside("held-out", 2, 0.0, lambda _: None),
        on_progress=lambda done, of: None,
        while_waiting=lambda: None,
    )


def test_samples_end_at_the_run_files_texts() -> None:
    rollouts = Rollouts()
    stop = ("\ndef ", "\nclass ")
    config = EvaluationConfig(samples_per_task=1, k=(1,), stop=stop, max_tokens=99)
    evaluator = evaluator_of(rollouts, config)
    found = evaluator.evaluate("before", [make_task("a"), make_task("b")], POLICY)
    assert len(found.results) == 2
    assert {one.sampling.stop for one in rollouts.sent} == {stop}
    assert {one.sampling.max_tokens for one in rollouts.sent} == {99}


def test_a_task_that_is_drawn_twice_gets_two_groups() -> None:
    rollouts = Rollouts()
    evaluator = evaluator_of(rollouts, EvaluationConfig(samples_per_task=1, k=(1,)))
    drawn = [make_task("a"), make_task("b"), make_task("a")]
    assert len(list(evaluator.play("signal-96", drawn, POLICY))) == 3
    assert len({one.key for one in rollouts.sent}) == 3
    assert len({one.sampling.seed for one in rollouts.sent}) == 3


class Lost(Rollouts):
    """Scores no request."""

    def collect(self, wait_s: float) -> list[ScoredGroup]:
        asked, self.num_in_flight = self.sent[-self.num_in_flight :], 0
        return [make_scored_group(one.key, None, task=one.task) for one in asked]


def test_an_evaluation_without_a_score_ends_with_its_first_failure() -> None:
    evaluator = evaluator_of(Lost(), EvaluationConfig(samples_per_task=1, k=(1,)))
    with pytest.raises(BudgetExceeded, match="none of 2 tasks could be scored: .+"):
        evaluator.evaluate("before", [make_task("a"), make_task("b")], POLICY)


def test_noted_numbers_are_compared_over_the_tasks_of_both_evaluations() -> None:
    """A number of an answer without a score counts too: how many answers a fallback gave."""

    def evaluation(name: str, **values: tuple[float | None, float]) -> TaskEvaluation:
        results = [
            TaskResult(
                task_id=task,
                prompt="p",
                tags={},
                samples=[
                    EvaluationSample(
                        text="t",
                        outcome=None if reward is None else Status.ACCEPTED,
                        reward=reward,
                        measures={"workflow_fallback": noted},
                    )
                ],
            )
            for task, (reward, noted) in values.items()
        ]
        return TaskEvaluation(name=name, policy=POLICY, confidence=0.95, results=results)

    before = evaluation("before", a=(0.5, 0.0), b=(None, 1.0), c=(0.5, 0.0))
    after = evaluation("after", a=(1.0, 0.0), b=(1.0, 0.0), d=(0.0, 1.0))
    found = measured_differences(before, after)
    assert found["reward"]["difference"].value == 0.5, "of a alone"
    assert found["workflow_fallback"]["before"].value == 0.5
    assert found["workflow_fallback"]["difference"].value == -0.5


@pytest.mark.parametrize("outcome", [Status.ACCEPTED, Status.WRONG_ANSWER])
def test_no_interval_is_a_point(outcome: Status) -> None:
    """Forty tasks of which all have one outcome do not show that all tasks have."""
    samples = [EvaluationSample(text="", outcome=outcome, reward=1.0)]
    results = [
        TaskResult(task_id=f"t{at}", prompt="p", tags={"domain": "d"}, samples=samples)
        for at in range(40)
    ]
    one = TaskEvaluation(name="before", policy=POLICY, confidence=0.95, results=results)
    change, reward = difference(one, one), measured_differences(one, one)["reward"]
    shares = (one.interval(1), one.by_tag("domain")["d"])
    for found in (*shares, change, *reward.values()):
        assert found.low < found.high
    assert (change.low, change.high) == pytest.approx((-0.088, 0.088), abs=0.01)
    for found in shares:
        assert 0.0 <= found.low < found.high <= 1.0
