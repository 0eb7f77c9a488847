"""Metrics of one task."""

import pytest

from assay_shared.types import Status
from assay_trainer.comparison.arms import ComparedSample, ComparedTask
from assay_trainer.comparison.metrics import ALIASES, all_metrics, is_of_programs


def make_task(*samples: ComparedSample) -> ComparedTask:
    return ComparedTask("t", "", {}, samples)


def value(name: str, task: ComparedTask) -> float | None:
    return next(one for one in all_metrics((1, 2), has_votes=True) if one.name == name).value(task)


RIGHT = ComparedSample("", Status.ACCEPTED, 10, False, 1.0, 0.5, vote="4")
WRONG = ComparedSample("", Status.WRONG_ANSWER, 30, True, 0.5, 0.1, vote="5")
BROKEN = ComparedSample("", Status.MEMORY_LIMIT, 20, False, 0.0, 0.0)


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
        ("scoring_s", 0.2),
    ],
)
def test_a_metric_is_the_mean_of_a_tasks_samples(name: str, expected: float) -> None:
    assert value(name, make_task(RIGHT, WRONG, BROKEN)) == pytest.approx(expected)


def test_a_number_that_a_sample_lacks_is_unknown_and_not_0() -> None:
    unknown = ComparedSample("", Status.ACCEPTED)
    for name in ("tokens", "truncated", "pass_ratio", "scoring_s"):
        assert value(name, make_task(RIGHT, unknown)) is None
    assert value("pass@1", make_task()) is None
    assert value("pass@2", make_task(RIGHT)) is None


def test_the_majority_is_the_first_of_the_most_frequent_answers() -> None:
    assert value("majority", make_task(RIGHT, WRONG)) == 1.0
    assert value("majority", make_task(WRONG, RIGHT)) == 0.0
    assert value("majority", make_task(WRONG, RIGHT, RIGHT)) == 1.0
    assert value("majority", make_task(BROKEN)) == 0.0


def test_aliases_name_metrics() -> None:
    names = {one.name for one in all_metrics((1,))}
    assert set(ALIASES.values()) <= names


def test_programs_are_told_by_tests_or_by_errors() -> None:
    plain = ComparedSample("", Status.WRONG_ANSWER)
    assert not is_of_programs([make_task(plain)])
    assert is_of_programs([make_task(plain, BROKEN)])
    assert is_of_programs([make_task(WRONG)])
