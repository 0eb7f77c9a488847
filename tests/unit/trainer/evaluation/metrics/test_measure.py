"""The numbers of a stored set."""

import pytest

from assay_shared.statistics.interval import wilson_interval
from assay_shared.types import FailureClass, Role, Status
from assay_trainer.evaluation.metrics.measure import measure
from assay_trainer.evaluation.metrics.set_metrics import SetMetrics
from assay_trainer.evaluation.metrics.shares import majority_is_right, tokens_to_solve
from assay_trainer.evaluation.records.evaluation_record import EvaluatedSet
from assay_trainer.evaluation.records.folder import StoredSet
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord
from tests.support.fakes import FAILURE


def sample(task: str, outcome: Status | None, index: int = 0, **changes: object) -> SampleRecord:
    values: dict[str, object] = {
        "task_id": task,
        "index": index,
        "text": "x",
        "num_tokens": 10,
        "truncated": False,
        "outcome": outcome,
        "reward": None if outcome is None else float(outcome is Status.ACCEPTED),
        "failure": FAILURE if outcome is None else None,
    }
    return SampleRecord.model_validate(values | changes)


def stored(samples: list[SampleRecord], tags: dict[str, dict[str, str]] | None = None) -> StoredSet:
    names = sorted({one.task_id for one in samples})
    tasks = [
        EvaluatedTask(
            id=one,
            dataset="d",
            role=Role.TEST,
            prompt="p",
            tags=(tags or {}).get(one, {}),
            reference="A",
        )
        for one in names
    ]
    facts = EvaluatedSet(
        name="s", source="s", roles={}, num_tasks=len(tasks), digest="0", played_s=2.0
    )
    return StoredSet(facts, tasks, samples)


def measured(samples: list[SampleRecord], **protocol: object) -> SetMetrics:
    return measure(stored(samples), Protocol.model_validate(protocol))


A, W = Status.ACCEPTED, Status.WRONG_ANSWER


def test_samples_without_a_score_are_counted_and_enter_nothing() -> None:
    good = [sample("a", A), sample("b", W)]
    found = measured([*good, sample("c", None, num_tokens=1000)])
    alone = measured(good)

    assert found.overall.num_failed == 1
    assert found.overall.failures == {FailureClass.SANDBOX: 1}
    assert found.overall.accepted_at_1 == alone.overall.accepted_at_1
    assert found.overall.costs == alone.overall.costs
    assert found.overall.num_scored_tasks == 2
    assert found.samples_per_s == 1.0


def test_noted_numbers_are_means_over_tasks_and_count_answers_without_a_score() -> None:
    def noted(task: str, outcome: Status | None, tokens: float, index: int = 0) -> SampleRecord:
        return sample(task, outcome, index, measures={"workflow_tokens": tokens})

    found = measured(
        [noted("a", A, 100.0), noted("a", W, 300.0, 1), noted("b", None, 600.0), sample("c", A)],
        kind=ProtocolKind.SAMPLED,
        samples_per_task=2,
        temperature=1.0,
    )
    tokens = found.overall.measures["workflow_tokens"]
    assert tokens.value == 400.0, "of a, 200, and of b"
    assert tokens.low is not None
    assert tokens.low < 400.0


def test_a_single_answer_a_task_has_wilsons_interval() -> None:
    found = measured([sample(str(i), A if i < 3 else W) for i in range(10)])

    share = found.overall.accepted_at_1
    assert share is not None
    expected = wilson_interval(3, 10, 0.95)
    assert (share.value, share.low, share.high) == (expected.value, expected.low, expected.high)
    assert found.overall.pass_at[1] == share


def test_pass_at_k_is_unbiased_and_drawn_over_k() -> None:
    samples = [sample("a", A if i == 0 else W, i) for i in range(4)]
    samples += [sample("b", W, i) for i in range(4)]
    found = measured(samples, kind="sampled", samples_per_task=4, k=(1, 2, 4), temperature=1.0)

    values = {k: one.value for k, one in found.overall.pass_at.items()}
    assert values == pytest.approx({1: 0.125, 2: 0.25, 4: 0.5})
    assert found.curve_over == "k"
    assert {one.x: one.share.value for one in found.curve} == pytest.approx(values)


def test_programs_have_errors_and_pass_ratios_and_other_answers_have_not() -> None:
    outcomes = [A, W, Status.SYNTAX_ERROR, Status.RUNTIME_ERROR, Status.TIME_LIMIT]
    ratios = [1.0, 0.5, 0.0, 0.0, 0.0]
    programs = [
        sample(str(i), one, pass_ratio=ratio)
        for i, (one, ratio) in enumerate(zip(outcomes, ratios, strict=True))
    ]
    found = measured([*programs, sample("choice", W)]).overall.code

    assert found is not None
    assert found.num_samples == 5
    assert found.execution_success.value == pytest.approx(0.4)
    assert found.pass_ratio.value == pytest.approx(0.3)
    assert (found.pass_ratio_p50, found.pass_ratio_p90) == pytest.approx((0.0, 0.8))
    shares = {name: one.value for name, one in found.error_types.items()}
    assert shares.pop("other_limit") == 0.0
    assert set(shares) == {"none", "wrong_answer", "syntax_error", "runtime_error", "time_limit"}
    assert [*shares.values()] == pytest.approx([0.2] * 5)
    assert measured([sample("choice", W)]).overall.code is None


def test_costs_are_for_each_accepted_answer_and_null_without_one() -> None:
    found = measured(
        [
            sample("a", A, num_tokens=30, sandbox_cpu_s=1.0, judge_s=0.5),
            sample("b", W, num_tokens=50, sandbox_cpu_s=0.5),
        ]
    ).overall.costs

    assert found is not None
    assert found.tokens is not None
    assert found.tokens.total == 80
    assert found.tokens_per_solved is not None
    assert found.tokens_per_solved.value == 80
    assert found.tokens_per_solved.high is None  # some resamples solve nothing
    assert found.judging_s_per_solved is not None
    assert found.judging_s_per_solved.value == pytest.approx(2.0)
    assert found.money_per_solved is None
    nothing = measured([sample("a", W)]).overall.costs
    assert nothing is not None
    assert nothing.tokens_per_solved is None


def test_tokens_that_one_answer_does_not_tell_are_not_known() -> None:
    told, untold = sample("a", A, money=2.0), sample("b", A, num_tokens=None)
    partly = measured([told, untold]).overall.costs

    assert partly is not None
    assert (partly.tokens, partly.tokens_per_solved) == (None, None)
    assert partly.money_per_solved is not None
    assert tokens_to_solve([told, untold]) is None
    lost = sample("b", None, num_tokens=None)
    known = measured([told, lost]).overall.costs
    assert known is not None
    assert known.tokens is not None
    assert known.tokens.total == 10


def test_the_most_frequent_final_answer_counts() -> None:
    votes = [("4", W), ("5", A), ("5", A), (None, W)]
    samples = [sample("a", one, i, vote=vote) for i, (vote, one) in enumerate(votes)]

    assert majority_is_right(samples) is True
    assert majority_is_right([samples[0], samples[1]]) is False  # of equals, the first
    assert majority_is_right([samples[3]]) is False
    assert majority_is_right([sample("a", None)]) is None
    protocol = {"kind": "majority", "samples_per_task": 4, "temperature": 1.0}
    found = measured(samples, **protocol).overall
    assert found.majority is not None
    assert found.majority.value == 1.0
    assert found.accepted_at_1 is not None
    assert found.accepted_at_1.value == 0.5


def test_a_budget_counts_what_is_solved_by_its_end() -> None:
    early = [sample("a", W, 0), sample("a", A, 1), sample("a", W, 2)]
    late = [sample("b", W, i) for i in range(2)] + [sample("b", A, 2)]
    never = [sample("c", W, i) for i in range(3)]
    lost = [sample("d", A, 0), sample("d", None, 1)]

    assert [tokens_to_solve(one) for one in (early, late, never, lost)] == [
        20,
        30,
        float("inf"),
        None,
    ]
    protocol = {"kind": "budget", "budget_tokens": 30, "samples_per_task": 9, "temperature": 1.0}
    found = measured([*early, *late, *never, *lost], **protocol)
    assert found.overall.solved_in_budget is not None
    assert found.overall.solved_in_budget.value == pytest.approx(2 / 3)
    by_tokens = {point.x: point.share.value for point in found.curve}
    assert by_tokens[18] == 0.0
    assert by_tokens[20] == pytest.approx(1 / 3)
    assert by_tokens[30] == pytest.approx(2 / 3)


def test_likelihood_is_told_by_sum_and_by_mean() -> None:
    long_right = sample(
        "a", W, option_logprobs={"A": -4.0, "B": -3.0}, option_tokens={"A": 4, "B": 1}
    )
    found = measured([long_right], kind=ProtocolKind.LIKELIHOOD).overall

    assert found.by_sum is not None
    assert found.by_mean is not None
    assert (found.by_sum.value, found.by_mean.value) == (0.0, 1.0)


def test_each_value_of_a_tag_is_a_stratum() -> None:
    tags = {"a": {"level": "easy"}, "b": {"level": "hard"}, "c": {"level": "hard"}}
    found = measure(stored([sample("a", A), sample("b", W), sample("c", A)], tags), Protocol())

    shares = {
        value: one.accepted_at_1 and one.accepted_at_1.value
        for value, one in found.strata["level"].items()
    }
    assert shares == {"easy": 1.0, "hard": 0.5}
