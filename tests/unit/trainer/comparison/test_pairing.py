"""Values of tasks on both sides."""

import time

import pytest

from assay_trainer.comparison.arms import ComparedSet, ComparedTask
from assay_trainer.comparison.metrics import Metric, all_metrics
from assay_trainer.comparison.pairing import alone, pair
from tests.support.evaluations import RIGHT, WRONG, make_sample


def metric(name: str) -> Metric:
    return next(one for one in all_metrics((1,)) if one.name == name)


def make_set(*outcomes: bool | None, tokens: int = 100) -> ComparedSet:
    """Return a set with a sample a task; None for a task without a score."""
    tasks = {}
    for i, is_right in enumerate(outcomes):
        sample = make_sample(f"t{i}", 0, RIGHT if is_right else WRONG, num_tokens=tokens)
        samples = [] if is_right is None else [sample]
        tasks[f"t{i}"] = ComparedTask(f"t{i}", "", {}, samples)
    return ComparedSet("m", tasks)


def test_a_task_counts_if_every_seed_of_both_sides_has_a_score() -> None:
    first = [make_set(True, False, True, True), make_set(True, True, None, True)]
    second = [make_set(True, True, True, None)]
    found = pair(metric("pass@1"), first, second, {f"t{i}" for i in range(4)})
    assert found.ids == ["t0", "t1"]
    assert found.left_out.without_score == 2
    assert found.before.columns.numerator.tolist() == [1.0, 0.5]


def test_only_the_chosen_tasks_of_both_sides_are_paired() -> None:
    first, second = [make_set(True, True, True)], [make_set(True, True, True, True)]
    found = pair(metric("pass@1"), first, second, {"t1", "t2", "t3"})
    assert found.ids == ["t1", "t2"]
    assert found.left_out.only_in_arm == 1
    assert alone(metric("pass@1"), second, {"t3"})[1] == 1


def test_a_cost_of_seeds_is_the_ratio_of_their_sums() -> None:
    seeds = [make_set(True, False), make_set(True, True, tokens=200)]
    side, number = alone(metric("tokens_per_solved"), seeds, {"t0", "t1"})
    assert number == 2
    assert side.estimate(metric("tokens_per_solved")) == pytest.approx(200.0)
    assert side.estimate(metric("tokens_per_solved"), seed=1) == pytest.approx(200.0)
    spread = side.spread(metric("tokens_per_solved"))
    assert spread is not None
    assert spread.values == pytest.approx([200.0, 200.0])


def test_a_seed_that_solved_nothing_has_no_spread() -> None:
    side, _ = alone(metric("tokens_per_solved"), [make_set(False), make_set(True)], {"t0"})
    assert side.spread(metric("tokens_per_solved")) is None


def test_the_quantile_of_seeds_is_the_mean_of_their_quantiles() -> None:
    seeds = [make_set(True, True, False), make_set(False, False, True)]
    side, _ = alone(metric("pass_ratio_p50"), seeds, {"t0", "t1", "t2"})
    assert side.estimate(metric("pass_ratio_p50")) == pytest.approx(0.5)
    assert side.quantile_resamples(0.5, seed=0).shape == (5000,)


@pytest.mark.slow
def test_ten_thousand_tasks_are_paired_in_a_second() -> None:
    """Of processor time: a quadratic search would take half a minute."""
    many = [make_set(*[True] * 10_000)]
    begin = time.process_time()
    pair(metric("pass@1"), many, many, set(many[0].tasks))
    assert time.process_time() - begin < 1.0
