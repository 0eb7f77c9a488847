"""The table against known truths: votes, equal tokens, intervals, and the three verdicts."""

import os
import random
from collections.abc import Callable

import pytest

from assay_reward.workflows.comparison.candidates import (
    CandidateKind,
    WorkflowCandidate,
    fixed_candidates,
)
from assay_reward.workflows.comparison.report import as_html, as_json, as_markdown
from assay_reward.workflows.comparison.samples import WorkflowSample
from assay_reward.workflows.comparison.self_consistency import voted_task
from assay_reward.workflows.comparison.table import (
    CandidateRow,
    ClaimVerdict,
    TableRules,
    make_table,
)
from assay_shared.types import Task

LEARNED = WorkflowCandidate("learned", CandidateKind.LEARNED, "return problem")
CANDIDATES = [*fixed_candidates(), LEARNED]
RULES = TableRules()


def sample(
    candidate: str, answer: str | None, tokens: float, index: int = 0, right: str = "1"
) -> WorkflowSample:
    measures = {"tokens": tokens, "calls": 1.0, "valid": 1.0}
    return WorkflowSample(
        candidate=candidate,
        index=index,
        is_right=answer == right,
        reward=float(answer == right),
        answer=answer,
        measures=measures,
    )


def lost(candidate: str, fallback: bool = False) -> WorkflowSample:
    measures = {"fallback": float(fallback), "valid": 1.0}
    return WorkflowSample(candidate=candidate, index=0, failure="executor", measures=measures)


def drawn(
    rng: random.Random, num_tasks: int, direct: float, learned: float, tokens: float, votes: int = 5
) -> dict[str, list[WorkflowSample]]:
    """Samples of known accuracies: right is "1", and a wrong answer is one of three."""

    def answer(share: float) -> str:
        return "1" if rng.random() < share else rng.choice("234")

    return {
        f"t{number}": [
            *(sample("direct", answer(direct), 100, index) for index in range(votes)),
            sample("learned", answer(learned), tokens),
        ]
        for number in range(num_tasks)
    }


def row_of(samples: dict[str, list[WorkflowSample]], rules: TableRules = RULES) -> CandidateRow:
    tasks = [Task(id=task_id) for task_id in samples]
    return next(
        row for row in make_table(tasks, samples, CANDIDATES, rules) if row.name == "learned"
    )


def vote(*answers: str | None) -> tuple[float, ...]:
    samples = [sample("direct", one, 100, at) for at, one in enumerate(answers)]
    found = voted_task(Task(id="t"), samples, ("tokens",), 0)
    assert found is not None
    return found.accuracies


def test_a_vote_is_the_expected_one_of_all_choices() -> None:
    assert vote("1", "1", "2") == pytest.approx((2 / 3, 2 / 3, 1.0))
    assert vote("1", "2", "2") == pytest.approx((1 / 3, 1 / 3, 0.0))
    assert vote("1.0", "1", "2")[2] == pytest.approx(0.5), "equal numbers are one vote"
    assert vote(None, None) == (0.0, 0.0)
    assert vote("1", None, None)[2] == 1.0, "an answer that is missing has no vote"


def test_equal_programs_are_equal_texts() -> None:
    samples = [sample("direct", text, 10, right="x = 1") for text in ("x = 1", "x  =  1", "x = 2")]
    found = voted_task(Task(id="t", rubric="code.sparse"), samples, ("tokens",), 0)
    assert found is not None
    assert found.accuracies[2] == 0.5, "of two equal programs, one is counted right here"


@pytest.mark.parametrize(
    ("tokens", "num_answers"), [(100, 1.0), (250, 2.5), (300, 3.0), (400, 4.0), (850, 8.5)]
)
def test_self_consistency_has_the_tokens_of_the_candidate(
    tokens: float, num_answers: float
) -> None:
    row = row_of(drawn(random.Random(0), 10, 0.5, 0.9, tokens, votes=9))
    assert row.against is not None
    assert row.against.num_answers == pytest.approx(num_answers)
    assert row.against.is_equal
    assert row.costs["tokens"] == tokens


def expected_vote(share: float, num_answers: int) -> float:
    """The accuracy of a vote of three answers by enumeration; of one or two, of one answer."""
    if num_answers < 3:
        return share
    each = {"1": share, "2": (1 - share) / 3, "3": (1 - share) / 3, "4": (1 - share) / 3}
    total = 0.0
    for a, p in each.items():
        for b, q in each.items():
            for c, r in each.items():
                answers = [a, b, c]
                most = max(map(answers.count, answers))
                winners = {one for one in answers if answers.count(one) == most}
                total += p * q * r * ("1" in winners) / len(winners)
    return total


def test_intervals_cover_the_truth() -> None:
    """Of 24 tables, one or two may miss at 95%; six would happen once in 1,000 times."""
    num_tables = 400 if os.environ.get("ASSAY_NIGHTLY") else 24
    truth = expected_vote(0.5, 3)
    missed = {"accuracy": 0, "difference": 0, "vote": 0}
    for seed in range(num_tables):
        row = row_of(drawn(random.Random(seed), 60, 0.5, 0.8, 300, votes=3), TableRules(seed=seed))
        assert row.accuracy is not None
        assert row.against is not None
        for name, interval, value in (
            ("accuracy", row.accuracy, 0.8),
            ("difference", row.against.difference, 0.8 - truth),
            ("vote", row.against.accuracy, truth),
        ):
            missed[name] += not interval.low <= value <= interval.high
    most = num_tables * 0.08 if num_tables > 100 else 5
    assert max(missed.values()) <= most, missed


@pytest.mark.parametrize(
    ("learned", "tokens", "verdict"),
    [
        (0.95, 300, ClaimVerdict.PASS),
        (0.20, 300, ClaimVerdict.FAIL),
        (0.50, 100, ClaimVerdict.INCONCLUSIVE),
        (0.95, 5000, ClaimVerdict.INCONCLUSIVE),
        (0.20, 5000, ClaimVerdict.FAIL),
        (0.20, 50, ClaimVerdict.INCONCLUSIVE),
        (0.95, 50, ClaimVerdict.PASS),
    ],
)
def test_the_verdict_follows_the_interval_and_the_tokens(
    learned: float, tokens: float, verdict: ClaimVerdict
) -> None:
    row = row_of(drawn(random.Random(3), 80, 0.5, learned, tokens))
    assert row.verdict is verdict, row.reason


def test_an_equal_workflow_fails_with_a_margin_and_enough_tasks() -> None:
    samples = drawn(random.Random(5), 600, 0.5, 0.5, 100, votes=1)
    assert row_of(samples).verdict is ClaimVerdict.INCONCLUSIVE
    assert row_of(samples, TableRules(margin=0.1)).verdict is ClaimVerdict.FAIL


@pytest.mark.parametrize("make", [lost, lambda name: lost(name, fallback=True)])
def test_a_sample_without_a_score_is_counted_and_in_no_mean(
    make: Callable[[str], WorkflowSample],
) -> None:
    samples = drawn(random.Random(3), 80, 0.5, 1.0, 300)
    before = row_of(samples)
    for task_id in list(samples)[:4]:
        samples[task_id][-1] = make("learned")
    after = row_of(samples)
    assert after.accuracy is not None
    assert before.accuracy is not None
    assert (after.accuracy.value, after.costs) == (before.accuracy.value, before.costs)
    assert (after.num_samples, after.num_scored, sum(after.lost.values())) == (80, 76, 4)
    assert after.verdict is ClaimVerdict.PASS
    for task_id in list(samples)[:20]:
        samples[task_id][-1] = make("learned")
    claimed = row_of(samples)
    assert claimed.verdict is ClaimVerdict.INCONCLUSIVE
    assert "25% of the samples have no score" in claimed.reason


def test_tasks_that_lost_direct_answers_are_not_compared() -> None:
    samples = drawn(random.Random(3), 80, 0.5, 1.0, 300)
    for number, found in enumerate(samples.values()):
        if number < 4:
            found[:3] = [lost("direct")] * 3
    row = row_of(samples)
    assert row.against is not None
    assert (row.against.num_tasks, row.num_tasks) == (76, 80)
    assert row.verdict is ClaimVerdict.PASS
    for found in list(samples.values())[:20]:
        found[:3] = [lost("direct")] * 3
    assert row_of(samples).verdict is ClaimVerdict.INCONCLUSIVE


def test_a_workflow_without_tokens_has_a_row() -> None:
    row = row_of(drawn(random.Random(3), 20, 0.5, 0.0, 0))
    assert row.verdict is ClaimVerdict.INCONCLUSIVE
    assert "fewer tokens than a single direct answer" in row.reason


def test_the_report_says_the_claim_and_escapes_texts() -> None:
    samples = drawn(random.Random(3), 40, 0.5, 0.95, 300)
    tasks = [Task(id=task_id) for task_id in samples]
    evil = WorkflowCandidate("<script>|x", CandidateKind.LEARNED, "return problem")
    renamed = {
        task_id: [
            one.model_copy(update={"candidate": evil.name}) if one.candidate == "learned" else one
            for one in found
        ]
        for task_id, found in samples.items()
    }
    rows = make_table(tasks, renamed, [*fixed_candidates(), evil], RULES)
    text = as_markdown(rows, RULES, len(samples))
    assert "**PASS**: <script>|x beats self-consistency at equal tokens" in text
    assert "| <script>\\|x | 40 |" in text
    assert "<script>" not in as_html(rows, RULES, renamed)
    assert as_json(rows, RULES, 40)["rows"][-1]["verdict"] == "PASS"  # type: ignore[index, call-overload]
