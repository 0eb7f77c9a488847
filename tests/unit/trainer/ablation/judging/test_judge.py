"""Verdicts on arms with known values."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay_trainer.ablation.ablation_config import GoalConfig
from assay_trainer.ablation.judging.crossed import crossed_mean
from assay_trainer.ablation.judging.findings import JudgedVerdict
from assay_trainer.ablation.judging.goals import judge_goals
from assay_trainer.ablation.judging.judge import against_bound, judge_changes, noise, value_row
from assay_trainer.ablation.judging.measurements import (
    FailedTask,
    Key,
    MeasuredArm,
    MeasuredRun,
    refused,
    shared_draws,
)

KEY = ("held_out", "pass@1")
COST = ("held_out", "tokens")


def run_of(values: np.ndarray, **digests: str) -> MeasuredRun:
    table = {f"t{at}": float(value) for at, value in enumerate(values)}
    return MeasuredRun(Path("run"), {KEY: table, COST: table}, digests, "w")


def arm_of(name: str, mean: float, num_seeds: int = 4, seed: int = 0) -> MeasuredArm:
    rng = np.random.default_rng(seed)
    runs = {at: run_of(mean + rng.normal(0, 0.05, size=40)) for at in range(num_seeds)}
    return MeasuredArm(name, runs)


def with_failed(arm: MeasuredArm, tasks: dict[str, FailedTask], key: Key = KEY) -> MeasuredArm:
    """Return the arm with these failed samples in each seed; without a score, no value."""
    runs = {}
    for seed, run in arm.runs.items():
        known = {
            id_: value
            for id_, value in run.values[key].items()
            if id_ not in tasks or tasks[id_].numbers
        }
        runs[seed] = replace(
            run,
            values={**run.values, key: known},
            counts={"held_out": (sum(one.num_failed for one in tasks.values()), 160)},
            failed={key: tasks},
            ranges={key: (min(known.values()), max(known.values()))},
        )
    return MeasuredArm(arm.name, runs)


def test_tasks_without_any_score_count_against_a_verdict() -> None:
    base, better = arm_of("base", 0.3), arm_of("better", 0.5, seed=1)
    few, many = ({f"t{at}": FailedTask((), 4) for at in range(num)} for num in (2, 20))
    (kept,) = judge_changes([(with_failed(better, few), base)], [KEY], 0.95)
    (turned,) = judge_changes([(with_failed(better, many), base)], [KEY], 0.95)
    assert (kept.num_tasks, turned.num_tasks) == (38, 20)
    assert (kept.verdict, turned.verdict) == (JudgedVerdict.PASS, JudgedVerdict.INCONCLUSIVE)
    assert kept.failed is not None
    assert kept.failed.found is not None
    assert kept.failed.found.value == pytest.approx(0.2 * 38 / 40 - 0.3 * 2 / 40, abs=0.03)
    assert turned.failed is not None
    assert turned.failed.counted == (0.0, 1.0)
    (worse,) = judge_changes([(base, with_failed(better, many))], [KEY], 0.95)
    assert worse.verdict is JudgedVerdict.INCONCLUSIVE
    (sound,) = judge_changes([(better, base)], [KEY], 0.95)
    assert sound.failed is None


def test_failed_samples_count_as_the_observed_extremes_of_a_metric_without_bounds() -> None:
    base, long = arm_of("base", 100.0), arm_of("long", 101.0, seed=1)
    failed = {f"t{at}": FailedTask((100.0,), 1) for at in range(40)}
    lost = with_failed(base, failed, COST)
    (row,) = judge_changes([(long, lost)], [COST], 0.95)
    assert row.failed is not None
    highest = max(value for run in lost.runs.values() for value in run.values[COST].values())
    assert row.failed.counted[1] == pytest.approx(highest)
    assert row.verdict is JudgedVerdict.FAIL, "no more than 100.3 tokens, and 101 are more"
    wide = with_failed(base, {"t0": FailedTask((1000.0,), 1), **failed}, COST)
    wide.runs[0].ranges[COST] = (0.0, 1000.0)  # type: ignore[index]
    (row,) = judge_changes([(long, wide)], [COST], 0.95)
    assert row.verdict is JudgedVerdict.INCONCLUSIVE


def test_a_goal_holds_only_with_failed_samples_counted_against_it() -> None:
    better, start = arm_of("better", 0.5, seed=1), run_of(np.full(40, 0.3))
    lost = with_failed(better, {f"t{at}": FailedTask((0.0, 1.0), 2) for at in range(40)})
    goals = [
        GoalConfig(metric="pass@1", arm="better", at_least=0.4),
        GoalConfig(metric="pass@1", arm="better", at_most=0.6),
        GoalConfig(metric="pass@1", arm="better", at_least=0.9),
        GoalConfig(metric="pass@1", arm="better", against="start", at_least=0.1),
    ]
    sound = judge_goals(goals, {"better": better}, start, None, 0.95)
    found = judge_goals(goals, {"better": lost}, start, None, 0.95)
    assert [one.verdict for one in sound] == ["PASS", "PASS", "FAIL", "PASS"]
    open_ = "INCONCLUSIVE"
    assert [one.verdict for one in found] == [open_, open_, "FAIL", open_]
    assert [one.failed.counted[0] for one in found if one.failed] == [0.0, 1.0, 1.0, 0.0]


def test_a_better_arm_passes_and_a_worse_one_fails_and_costs_are_turned_round() -> None:
    base, better = arm_of("base", 0.3), arm_of("better", 0.5, seed=1)
    up, cost = judge_changes([(better, base)], [KEY, COST], 0.95)
    (down,) = judge_changes([(base, better)], [KEY], 0.95)
    assert (up.verdict, cost.verdict, down.verdict) == (
        JudgedVerdict.PASS,
        JudgedVerdict.FAIL,
        JudgedVerdict.FAIL,
    )
    assert up.change.value == pytest.approx(0.2, abs=0.03)


def test_with_three_seeds_even_a_large_difference_is_inconclusive() -> None:
    base, better = arm_of("base", 0.3, 3), arm_of("better", 0.9, 3, 1)
    (row,) = judge_changes([(better, base)], [KEY], 0.95)
    assert row.verdict is JudgedVerdict.INCONCLUSIVE
    assert row.p_corrected < 0.01


def test_with_three_seeds_no_difference_is_called_detectable() -> None:
    three, four = (arm_of("base", 0.3, num) for num in (3, 4))
    (few,) = judge_changes([(arm_of("other", 0.4, 3, 1), three)], [KEY], 0.95)
    (enough,) = judge_changes([(arm_of("other", 0.4, 4, 1), four)], [KEY], 0.95)
    assert few.detectable is None
    assert enough.detectable is not None


def test_no_difference_is_called_detectable_that_a_share_cannot_have() -> None:
    rng = np.random.default_rng(3)

    def coins(name: str, means: tuple[float, ...]) -> MeasuredArm:
        runs = {at: run_of((rng.random(20) < mean) * 1.0) for at, mean in enumerate(means)}
        return MeasuredArm(name, runs)

    base, wild = coins("base", (0.0, 1.0, 0.0, 1.0)), coins("wild", (1.0, 0.0, 1.0, 0.0))
    (row,) = judge_changes([(wild, base)], [KEY], 0.95)
    assert row.detectable is None
    assert (row.change.low, row.change.high) == (-1.0, 1.0)
    (found,) = judge_goals(
        [GoalConfig(metric="pass@1", arm="wild", at_least=0.5)],
        {"wild": wild},
        run_of(np.zeros(20)),
        None,
        0.95,
    )
    assert found.found is not None
    assert (found.found.low, found.found.high) == (0.0, 1.0)
    aa = noise([base, wild], KEY)
    assert aa is not None
    assert aa.floor <= 1.0
    calm = arm_of("calm", 0.3), arm_of("other", 0.4, seed=1)
    (row,) = judge_changes([calm], [KEY], 0.95)
    assert row.detectable is not None
    assert 0 < row.detectable < 0.7


def test_a_metric_without_bounds_keeps_its_detectable_difference() -> None:
    def costs(*values: float) -> dict[int, MeasuredRun]:
        return {
            at: MeasuredRun(Path("r"), {COST: {"t0": v, "t1": v + 5.0}}, {}, "w")
            for at, v in enumerate(values)
        }

    long, short = costs(300.0, 500.0, 350.0, 450.0), costs(10.0, 90.0, 30.0, 70.0)
    arms = MeasuredArm("long", long), MeasuredArm("short", short)
    (row,) = judge_changes([arms], [COST], 0.95)
    assert row.detectable is not None
    assert row.detectable > 1


def test_holms_correction_is_over_all_comparisons() -> None:
    base = arm_of("base", 0.3)
    arms = [arm_of(f"a{at}", 0.3, seed=at + 5) for at in range(6)]
    alone = [judge_changes([(one, base)], [KEY], 0.95)[0].p_corrected for one in arms]
    rows = judge_changes([(one, base) for one in arms], [KEY], 0.95)
    assert [row.p for row in rows] == alone
    assert min(row.p_corrected for row in rows) == pytest.approx(min(1.0, 6 * min(alone)))


def test_a_metric_with_equal_numbers_counts_once_in_holms_correction() -> None:
    reward = ("held_out", "reward")

    def with_reward(arm: MeasuredArm, *, other: bool = False) -> MeasuredArm:
        for run in arm.runs.values():
            run.values[reward] = {id_: value + 1e-15 for id_, value in run.values[KEY].items()}
        if other:
            arm.runs[3].values[reward]["t5"] += 0.25
        return arm

    def pair(*, other: bool = False) -> tuple[MeasuredArm, MeasuredArm]:
        new = with_reward(arm_of("new", 0.32, seed=4), other=other)
        return new, with_reward(arm_of("base", 0.3))

    (alone,) = judge_changes([pair()], [KEY], 0.95)
    first, second = judge_changes([pair()], [KEY, reward], 0.95)
    assert first.p_corrected == second.p_corrected == alone.p_corrected == alone.p
    assert first.detectable == alone.detectable
    assert (first.same_as, second.same_as) == (None, "pass@1")
    first, second = judge_changes([pair(other=True)], [KEY, reward], 0.95)
    assert (first.same_as, second.same_as) == (None, None)
    assert first.p_corrected > alone.p_corrected


def test_only_tasks_that_every_seed_of_both_arms_has_are_compared() -> None:
    base, other = arm_of("base", 0.3), arm_of("other", 0.3, seed=2)
    del other.runs[2].values[KEY]["t7"]
    (row,) = judge_changes([(other, base)], [KEY], 0.95)
    assert row.num_tasks == 39
    whole = value_row(base, KEY, 0.95)
    assert whole is not None
    assert (whole.num_tasks, len(whole.seeds)) == (40, 4)


def test_a_number_of_tokens_is_not_below_0_and_may_be_above_1() -> None:
    tokens = ("held_out", "tokens")
    runs = {
        at: MeasuredRun(Path("r"), {tokens: {"a": 0.0, "b": top}}, {}, "w")
        for at, top in enumerate((0.0, 1.0, 1.0))
    }
    row = value_row(MeasuredArm("a", runs), tokens, 0.95)
    assert row is not None
    assert row.value.low == 0.0
    assert row.value.high is not None
    assert row.value.high > 1.0


def test_the_noise_of_equal_arms_is_that_of_their_seeds() -> None:
    means = (0.1, 0.2, 0.4)
    arm = MeasuredArm("a", {at: run_of(np.full(5, mean)) for at, mean in enumerate(means)})
    row = noise([arm], KEY)
    assert row is not None
    assert row.num_pairs == 3
    assert row.largest == pytest.approx(0.3)
    assert row.deviation == pytest.approx(np.std(means, ddof=1))
    assert noise([arm_of("one", 0.3, 1)], KEY) is None


def test_shared_draws_are_a_share_of_those_of_either_arm_over_seeds() -> None:
    def arm(name: str, *draws: set[int]) -> MeasuredArm:
        runs = enumerate(MeasuredRun(Path("r"), {}, {}, "w", frozenset(one)) for one in draws)
        return MeasuredArm(name, dict(runs))

    first, second = arm("a", {1, 2, 3}, {1, 2}), arm("b", {1, 2, 4}, {1, 2})
    assert shared_draws(first, second) == pytest.approx((0.5 + 1.0) / 2)
    assert shared_draws(first, first) == 1.0
    assert shared_draws(arm("a", set()), arm("b", set())) is None


def test_a_digest_that_differs_refuses_the_arm_by_its_name() -> None:
    base = MeasuredArm("base", {1: run_of(np.ones(2), rubric="r1", tasks="t")})
    other = MeasuredArm("other", {1: run_of(np.ones(2), rubric="r2", tasks="t")})
    assert refused(base, base) == []
    assert refused(base, other) == ["rubric: r1, not r2 (seed 1)"]


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        ({"at_least": 0.3}, JudgedVerdict.PASS),
        ({"at_least": 0.8}, JudgedVerdict.FAIL),
        ({"at_most": 0.3}, JudgedVerdict.FAIL),
        ({"at_least": 0.5}, JudgedVerdict.INCONCLUSIVE),
        ({"against": "start", "at_least": 0.05}, JudgedVerdict.PASS),
        ({"against": "other", "at_least": 0.3}, JudgedVerdict.FAIL),
    ],
)
def test_a_goal_is_judged_by_the_interval_of_the_best_arm(
    goal: dict[str, object], verdict: JudgedVerdict
) -> None:
    arms = {"best": arm_of("best", 0.5), "other": arm_of("other", 0.4, seed=1)}
    start = run_of(np.full(40, 0.2))
    config = GoalConfig.model_validate({"metric": "pass@1", **goal})
    (found,) = judge_goals([config], arms, start, "best", 0.95)
    assert found.verdict is verdict
    few = {"best": arm_of("best", 0.5, 2), "other": arm_of("other", 0.4, 2, 1)}
    (found,) = judge_goals([config], few, start, "best", 0.95)
    assert found.verdict is JudgedVerdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("bound", "verdict"),
    [
        ({"at_least": 0.0}, JudgedVerdict.INCONCLUSIVE),
        ({"at_most": 0.0}, JudgedVerdict.INCONCLUSIVE),
        ({"at_most": 0.0001}, JudgedVerdict.INCONCLUSIVE),
        ({"at_most": 0.05}, JudgedVerdict.INCONCLUSIVE),
        ({"at_most": 0.06}, JudgedVerdict.PASS),
        ({"at_least": -0.06}, JudgedVerdict.PASS),
        ({"at_least": 0.06}, JudgedVerdict.FAIL),
    ],
)
def test_equal_answers_to_60_tasks_show_no_more_than_the_rule_of_three(
    bound: dict[str, float], verdict: JudgedVerdict
) -> None:
    start = run_of(np.tile([0.0, 0.25, 1.0], 20))
    arms = {name: MeasuredArm(name, dict.fromkeys(range(4), start)) for name in ("arm", "base")}
    for against in ("start", "base"):
        goal = {"metric": "pass@1", "arm": "arm", "against": against} | bound
        (found,) = judge_goals([GoalConfig.model_validate(goal)], arms, start, None, 0.95)
        assert found.verdict is verdict
        assert found.found is not None
        assert found.found.low is not None
        assert found.found.low < found.found.value < (found.found.high or 0)


def test_the_same_few_tasks_in_every_seed_are_no_difference() -> None:
    """Four and five tasks of 24 have 0.125 and 0.0625 by the exact sign test, and seven 0.016."""
    base = run_of(np.zeros(24))
    for num_better, verdict in ((4, "INCONCLUSIVE"), (5, "INCONCLUSIVE"), (7, "PASS")):
        better = run_of(np.repeat([0.25, 0.0], [num_better, 24 - num_better]))
        runs = (dict.fromkeys(range(4), one) for one in (better, base))
        arm, other = map(MeasuredArm, ("arm", "base"), runs)
        (row,) = judge_changes([(arm, other)], [KEY], 0.95)
        assert row.verdict == verdict
        assert row.freedom <= 23


def test_an_interval_that_touches_the_bound_is_inconclusive() -> None:
    mean = crossed_mean(np.random.default_rng(2).normal(0.3, 0.2, size=(4, 30)))
    interval = mean.interval(0.95)
    for bound, is_above in ((interval.low, True), (interval.high, False)):
        for at_least in (True, False):
            touched = against_bound(mean, bound, 0.95, at_least=at_least)
            assert touched is JudgedVerdict.INCONCLUSIVE
            past = bound - 1e-6 if is_above else bound + 1e-6
            beyond = JudgedVerdict.PASS if at_least == is_above else JudgedVerdict.FAIL
            assert against_bound(mean, past, 0.95, at_least=at_least) is beyond
