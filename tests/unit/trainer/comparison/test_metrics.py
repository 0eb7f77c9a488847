"""Metrics of one task."""

import pytest

from assay_shared.types import Status
from assay_trainer.comparison.arms import ComparedTask
from assay_trainer.comparison.metrics import ALIASES, all_metrics, is_of_programs
from assay_trainer.evaluation.records.protocol import ProtocolKind
from assay_trainer.evaluation.records.sample_record import RoundRecord, SampleRecord
from tests.support.evaluations import make_answer, make_sample


def make_task(*samples: SampleRecord, has_costs: bool = True, num_failed: int = 0) -> ComparedTask:
    return ComparedTask("t", "", {}, samples, num_failed, has_costs)


def value(name: str, task: ComparedTask) -> float | None:
    return next(one for one in all_metrics((1, 2)) if one.name == name).value(task)


RIGHT = make_sample(
    "t", 0, Status.ACCEPTED, num_tokens=10, pass_ratio=1.0, sandbox_cpu_s=0.5, vote="4"
)
WRONG = make_sample(
    "t",
    1,
    Status.WRONG_ANSWER,
    num_tokens=30,
    pass_ratio=0.5,
    sandbox_cpu_s=0.1,
    truncated=True,
    vote="5",
)
BROKEN = make_sample("t", 2, Status.RUNTIME_ERROR, num_tokens=20, pass_ratio=0.0, sandbox_cpu_s=0.0)
PLAIN = make_answer("t", 3, Status.WRONG_ANSWER)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pass@1", 1 / 3),
        ("pass@2", 2 / 3),
        ("execution_success", 2 / 3),
        ("pass_ratio", 0.5),
        ("runtime_error", 1 / 3),
        ("wrong_answer", 1 / 3),
        ("syntax_error", 0.0),
        ("truncated", 1 / 3),
        ("tokens", 20.0),
        ("judging_s", 0.2),
    ],
)
def test_a_metric_is_the_mean_of_a_tasks_samples(name: str, expected: float) -> None:
    assert value(name, make_task(RIGHT, WRONG, BROKEN)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "without", "lowest", "highest"),
    [
        ("pass@1", 1 / 2, 1 / 3, 2 / 3),
        ("pass@2", 1.0, 2 / 3, 1.0),
        ("execution_success", 1.0, 2 / 3, 1.0),
        ("pass_ratio", 0.75, 0.5, 5 / 6),
        ("truncated", 1 / 2, 1 / 3, 2 / 3),
        ("majority", 1.0, 0.0, 1.0),
        ("solved_in_budget", None, 1.0, 1.0),
    ],
)
def test_a_failed_sample_counts_as_it_is_told_to(
    name: str, without: float | None, lowest: float, highest: float
) -> None:
    metric = next(one for one in all_metrics((1, 2)) if one.name == name)
    task = make_task(RIGHT, WRONG, num_failed=1)
    assert metric.value(task) == (None if without is None else pytest.approx(without))
    assert metric.value(task, 0.0) == pytest.approx(lowest)
    assert metric.value(task, 1.0) == pytest.approx(highest)
    lost = make_task(num_failed=1)
    assert (metric.value(lost), metric.value(lost, 1.0)) == (
        None,
        None if name == "pass@2" else 1.0,
    )
    assert metric.value(make_task(RIGHT, WRONG), 0.0) == metric.value(make_task(RIGHT, WRONG))


def test_a_number_that_was_not_kept_is_unknown_and_not_0() -> None:
    """A run's evaluations keep no tokens, and no shares of tests passed."""
    task = make_task(RIGHT, has_costs=False)
    for name in ("tokens", "truncated", "judging_s", "tokens_per_solved"):
        assert value(name, task) is None
    assert value("execution_success", task) == 1.0
    assert value("execution_success", make_task(PLAIN)) is None, "it was not tested as a program"
    assert value("pass@1", make_task()) is None
    assert value("pass@2", make_task(RIGHT)) is None


def test_costs_per_solved_are_sums() -> None:
    assert value("tokens_per_solved", make_task(RIGHT, WRONG, BROKEN)) == 60.0


def test_a_budget_is_solved_by_any_answer_unless_one_failed() -> None:
    assert value("solved_in_budget", make_task(WRONG, RIGHT)) == 1.0
    assert value("solved_in_budget", make_task(WRONG)) == 0.0
    assert value("solved_in_budget", make_task(WRONG, num_failed=1)) is None


def test_the_majority_is_the_first_of_the_most_frequent_answers() -> None:
    assert value("majority", make_task(RIGHT, WRONG)) == 1.0
    assert value("majority", make_task(WRONG, RIGHT)) == 0.0
    assert value("majority", make_task(WRONG, RIGHT, RIGHT)) == 1.0
    assert value("majority", make_task(BROKEN)) == 0.0


def test_aliases_name_metrics() -> None:
    names = {one.name for one in all_metrics((1,))}
    assert set(ALIASES.values()) <= names


def test_programs_are_told_by_tests_or_by_errors() -> None:
    assert not is_of_programs([make_task(PLAIN)])
    assert is_of_programs([make_task(PLAIN, BROKEN)])
    assert is_of_programs([make_task(WRONG)])


def test_only_the_protocols_of_an_answer_have_their_metrics() -> None:
    assert "majority" not in {one.name for one in all_metrics((1,), [ProtocolKind.GREEDY])}
    assert all_metrics((1,), [ProtocolKind.MAJORITY])[0].name == "majority"


def test_repair_has_the_first_programs_and_the_last_ones() -> None:
    rounds = tuple(
        RoundRecord(outcome=one, pass_ratio=float(one is Status.ACCEPTED), num_tokens=10)
        for one in (Status.WRONG_ANSWER, Status.ACCEPTED)
    )
    repaired = RIGHT.model_copy(update={"rounds": rounds})
    at_once = RIGHT.model_copy(update={"index": 1, "rounds": rounds[1:]})
    never = WRONG.model_copy(update={"index": 2, "rounds": rounds[:1]})
    task = make_task(repaired, at_once, never)
    assert value("accepted_at_multi", task) == pytest.approx(2 / 3)
    assert value("pass@1", task) == pytest.approx(1 / 3)
    assert value("pass@2", task) == pytest.approx(2 / 3)
    of_repair = all_metrics((1,), [ProtocolKind.REPAIR])
    assert of_repair[0].name == "accepted_at_multi"
    assert {one.twin for one in of_repair} == {None, "accepted_at_multi"}
