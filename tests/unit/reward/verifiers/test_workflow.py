"""Rewards of workflows, through the scorer and the rubrics that come with the service."""

import dataclasses
import itertools
import random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from assay_reward.idempotency import ResponseCache
from assay_reward.instruments import Instruments
from assay_reward.rubric import Rubrics
from assay_reward.scorer import Scorer
from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.playing.played import PREFIX
from assay_reward.workflows.playing.player import WorkflowPlayer
from assay_shared.errors import ExecutorFault, InvalidInput, JudgeFault, Unreachable
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.types import (
    Answer,
    FailureClass,
    Reward,
    Scored,
    ScoreRequest,
    Status,
    Task,
    Unscored,
)
from tests.support.fakes import FakeJudge, make_task
from tests.support.workflows import (
    EDITED,
    ENDLESS,
    INVALID,
    MISSPELT,
    ONE_CALL,
    FakeExecutor,
    make_instruments,
    make_workflow_task,
)

TASK = make_workflow_task()
RIGHT = FakeExecutor(lambda _: "Answer: 42")


def make_scorer(instruments: Instruments) -> Scorer:
    return Scorer(
        Rubrics(None),
        instruments,
        FairLimiter(1, 10),
        ResponseCache(10**6),
        CollectorRegistry(),
    )


async def score(
    *answers: str | tuple[str, ...],
    executor: FakeExecutor = RIGHT,
    task: Task = TASK,
    judge: FakeJudge | None = None,
) -> list[Reward]:
    scorer = make_scorer(make_instruments(executor, judge))
    request = ScoreRequest(task=task, answers=tuple(Answer(text=one) for one in answers))
    return list((await scorer.score(request)).rewards)


def parts(reward: Reward) -> dict[str, float]:
    assert isinstance(reward, Scored), reward
    return {one.name.removeprefix("workflow_"): one.value for one in reward.components}


@pytest.mark.parametrize(
    "returned",
    [
        '"{found.response}\\n#### 42"',
        '"42{found.response}"',
        '"{found.response} \\\\boxed{{42}}"',
        '"The answer is 42. {found.response}"',
    ],
)
async def test_a_policy_is_not_paid_for_its_own_answer(returned: str) -> None:
    said = FakeExecutor(lambda _: "zz")
    own = f'found = Custom(input="1", instruction="1")\nreturn {returned}'
    (reward,) = await score(own, executor=said)
    assert parts(reward)["correct"] == parts(reward)["thrift"] == 0
    (reward,) = await score(own.replace("42", "41"), executor=FakeExecutor(lambda _: "42"))
    assert parts(reward)["correct"] == 1, "the executor is right, whatever stands around"


async def test_the_components_are_correctness_less_cost_and_less_repairs() -> None:
    clean, repaired, longer = await score(ONE_CALL, MISSPELT, EDITED)
    assert parts(clean) == {"correct": 1.0, "thrift": 1 - 15 / 8000, "clean": 1.0}
    assert parts(repaired) == {"correct": 1.0, "thrift": 1 - 15 / 8000, "clean": 0.75}
    assert parts(longer)["thrift"] == 1 - 30 / 8000
    assert isinstance(clean, Scored)
    assert clean.outcome is Status.ACCEPTED
    assert clean.value == pytest.approx(1.0 + 0.2 * (1 - 15 / 8000) + 0.1)


async def test_a_wrong_answer_earns_nothing_for_being_cheap() -> None:
    (wrong,) = await score(ONE_CALL, executor=FakeExecutor(lambda _: "Answer: 41"))
    assert parts(wrong) == {"correct": 0.0, "thrift": 0.0, "clean": 1.0}
    assert isinstance(wrong, Scored)
    assert wrong.outcome is Status.WRONG_ANSWER


async def test_the_policys_own_faults_are_scores_with_an_outcome() -> None:
    task = make_workflow_task(budgets={"calls": 2})
    invalid, endless = await score(INVALID, ENDLESS, task=task)
    for reward, outcome, name in (
        (invalid, Status.SYNTAX_ERROR, "valid"),
        (endless, Status.RUNTIME_ERROR, "fault"),
    ):
        assert isinstance(reward, Scored)
        assert (reward.value, reward.outcome) == (0.0, outcome)
        assert reward.measures[PREFIX + name] == (1.0 if name == "fault" else 0.0)
    assert isinstance(endless, Scored)
    assert "budget of 2 calls" in endless.components[0].detail


async def test_a_failed_executor_fails_the_sample_and_no_other() -> None:
    """An invalid workflow of the same group asked nothing, and keeps its score."""
    broken = FakeExecutor(lambda _: ExecutorFault("planted"))
    failed, invalid = await score(ONE_CALL, INVALID, executor=broken)
    assert isinstance(failed, Unscored)
    assert failed.failure.failure_class is FailureClass.EXECUTOR
    assert failed.measures[PREFIX + "failed"] == 1.0
    assert isinstance(invalid, Scored)


async def test_a_reply_that_could_not_be_played_leaves_the_others_alone() -> None:
    instruments, begun = make_instruments(RIGHT), itertools.count()

    def begin(budgets: RunBudgets, run: str) -> FakeExecutor:
        if next(begun) == 1:
            raise Unreachable("planted")
        return RIGHT

    player = WorkflowPlayer(begin, instruments.sandbox)
    scorer = make_scorer(dataclasses.replace(instruments, workflows=player))
    answers = tuple(Answer(text=ONE_CALL) for _ in range(3))
    rewards = (await scorer.score(ScoreRequest(task=TASK, answers=answers))).rewards
    lost = [one for one in rewards if isinstance(one, Unscored)]
    assert [one.failure.failure_class for one in lost] == [FailureClass.NETWORK]
    assert [parts(one)["correct"] for one in rewards if isinstance(one, Scored)] == [1.0, 1.0]


async def test_a_fallbacks_right_answer_is_reported_and_not_rewarded() -> None:
    broken = FakeExecutor(lambda _: ExecutorFault("planted"), fallback=RIGHT)
    (reward,) = await score(ONE_CALL, executor=broken)
    assert isinstance(reward, Unscored)
    assert reward.measures[PREFIX + "fallback"] == 1.0
    evidence = reward.evidence["workflow"]
    assert isinstance(evidence, dict)
    run = evidence["run"]
    assert isinstance(run, dict)
    assert isinstance(run["fallback"], dict)
    assert run["fallback"]["answer"] == "42"
    assert "answer" not in run


async def test_with_13_percent_of_replies_lost_no_sample_is_zero_and_no_fallback_is_paid() -> None:
    rng = random.Random(5)

    def says(prompt: str) -> str | ExecutorFault:
        return "" if rng.random() < 0.13 else "Answer: 42"

    executor = FakeExecutor(says, fallback=RIGHT)
    rewards = await score(*[EDITED] * 200, executor=executor)
    scored = [one for one in rewards if isinstance(one, Scored)]
    lost = [one for one in rewards if isinstance(one, Unscored)]
    assert min(one.value for one in scored) > 1.0
    assert 200 * 0.1 < len(lost) < 200 * 0.4, "two calls each: 24% expected"
    assert {one.failure.failure_class for one in lost} == {FailureClass.EXECUTOR}
    assert all(one.measures[PREFIX + "fallback"] == 1.0 for one in lost)
    assert all(one.measures[PREFIX + "fallback"] == 0.0 for one in scored)


async def test_a_judge_decides_for_the_whole_group_at_once() -> None:
    task = make_workflow_task(rubric="qa")
    judge = FakeJudge()
    said = FakeExecutor(lambda prompt: "Answer: Lyon" if "Solution:" in prompt else "Answer: 42")
    rewards = await score(ONE_CALL, EDITED, INVALID, executor=said, task=task, judge=judge)
    (asked,) = judge.requests
    assert asked.question == "What is 6 * 7?"
    assert asked.reference == "42"
    assert len(asked.answers) == 2
    assert [parts(one)["correct"] for one in rewards] == [1.0, 0.0, 0.0]


async def test_without_a_judge_known_outcomes_keep_their_scores() -> None:
    task = make_workflow_task(rubric="qa")
    judged, invalid = await score(ONE_CALL, INVALID, task=task, judge=FakeJudge(JudgeFault("x")))
    assert isinstance(judged, Unscored)
    assert judged.failure.failure_class is FailureClass.JUDGE
    assert isinstance(invalid, Scored)


async def test_a_program_is_scored_by_all_tests_of_the_task() -> None:
    code = make_task().tests * 4
    task = make_workflow_task(rubric="code.dense").model_copy(update={"tests": code})
    (reward,) = await score(ONE_CALL, executor=FakeExecutor(lambda _: "pass 3"), task=task)
    assert parts(reward)["correct"] == 0.75


async def test_the_run_that_the_policy_saw_is_the_run_that_is_scored() -> None:
    from assay_reward.environments import ENVIRONMENTS

    rng = random.Random(1)
    executor = FakeExecutor(lambda _: f"Answer: {rng.choice((41, 42))}")
    instruments = make_instruments(executor)
    scorer, task = make_scorer(instruments), make_workflow_task(max_turns=2)
    for number in range(8):
        turns = (f"# {number}\n{ONE_CALL}", "keep")
        seen = await ENVIRONMENTS["workflow"].step(task, turns[:1], instruments)
        request = ScoreRequest(task=task, answers=(Answer(text=turns),))
        (reward,) = (await scorer.score(request)).rewards
        assert ("Answer: 42" in seen.observation) == (parts(reward)["correct"] == 1.0)
    assert len(executor.asked) == 8


async def test_an_episode_pays_for_every_run_that_the_policy_has_read() -> None:
    task = make_workflow_task(max_turns=3)
    once, again, kept, invalid = await score(
        (ONE_CALL,), (EDITED, ONE_CALL), (EDITED, INVALID, "keep"), (EDITED, INVALID), task=task
    )
    assert parts(once)["thrift"] == 1 - 15 / 8000
    assert parts(again)["thrift"] == 1 - 45 / 8000
    assert isinstance(again, Scored)
    assert again.measures[PREFIX + "calls"] == 3.0
    assert again.measures[PREFIX + "operator_cost"] == 2.5
    assert again.measures[PREFIX + "operator_AnswerGenerate"] == 2.0
    for one in (kept, invalid):
        assert isinstance(one, Scored)
        assert (one.value, one.outcome) == (0.0, Status.SYNTAX_ERROR)
        assert one.measures[PREFIX + "tokens"] == 30.0


async def test_an_answer_that_was_read_and_pasted_earns_nothing() -> None:
    task = make_workflow_task(max_turns=2)
    pasted, told = await score(
        (EDITED, 'return "42"'),
        (EDITED, 'a = Custom(input="Say 42", instruction="x")\nreturn a.response'),
        task=task,
    )
    assert isinstance(pasted, Scored)
    assert (pasted.value, pasted.outcome) == (0.0, Status.RUNTIME_ERROR)
    assert "return the result of an operator" in pasted.components[0].detail
    assert parts(told)["thrift"] == 1 - 45 / 8000


async def test_an_earlier_run_that_fails_again_leaves_the_sample_without_a_score() -> None:
    task = make_workflow_task(max_turns=2)
    broken = FakeExecutor(lambda said: ExecutorFault("planted") if "Solution" in said else "42")
    (reward,) = await score((EDITED, ONE_CALL), task=task, executor=broken)
    assert isinstance(reward, Unscored)
    assert reward.failure.failure_class is FailureClass.EXECUTOR


async def test_more_turns_than_the_episode_has_leave_no_score() -> None:
    for turns, most in (((ONE_CALL,) * 3, 2), ((ONE_CALL, "keep"), 1)):
        over, other = await score(turns, (ONE_CALL,), task=make_workflow_task(max_turns=most))
        assert isinstance(over, Unscored)
        assert over.failure.failure_class is FailureClass.CALLER
        assert f"ends after {most} turns" in over.failure.message
        assert isinstance(other, Scored)


async def test_a_fallback_that_failed_too_is_not_counted() -> None:
    other = FakeExecutor(lambda _: ExecutorFault("planted"))
    broken = FakeExecutor(lambda _: ExecutorFault("planted"), fallback=other)
    (reward,) = await score(ONE_CALL, executor=broken)
    assert reward.measures[PREFIX + "fallback"] == 0.0


async def test_the_evidence_has_the_trace_and_the_measures_have_the_operators() -> None:
    (reward,) = await score(EDITED, task=make_workflow_task(trace_chars=20))
    assert isinstance(reward, Scored)
    assert reward.measures[PREFIX + "operator_Format"] == 1.0
    assert reward.measures[PREFIX + "operator_Review"] == 0.0
    assert reward.measures[PREFIX + "calls"] == 2.0
    evidence: Any = reward.evidence["workflow"]
    assert evidence["source"].strip() == EDITED.strip()
    operators = evidence["run"]["trace"]["children"]
    assert [one["name"] for one in operators] == ["AnswerGenerate", "Format"]
    assert len(operators[0]["children"][0]["prompt"]) < 60, "cut to 20 characters"


async def test_a_task_whose_own_rubric_is_for_workflows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot score an answer inside an answer"):
        await score(ONE_CALL, task=make_workflow_task(rubric="workflow"))


async def test_a_task_of_no_environment_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not played anywhere"):
        await score(ONE_CALL, task=make_task(rubric="workflow"))


async def test_a_workflow_that_is_kept_twice_counts_like_one_kept_once() -> None:
    task = make_workflow_task(max_turns=4)
    once, twice, more = [
        (await score(turns, task=task))[0]
        for turns in (
            (ONE_CALL, "keep"),
            (ONE_CALL, "keep", "`keep`."),
            (ONE_CALL, "keep", EDITED),
        )
    ]
    assert isinstance(once, Scored)
    assert isinstance(twice, Scored)
    assert once.value == twice.value > 1
    assert isinstance(more, Unscored)
    assert more.failure.failure_class is FailureClass.CALLER
    assert "turn 2 keeps the workflow" in more.failure.message


@pytest.mark.parametrize("rubric", ["nope", "workflow"])
async def test_a_rubric_that_cannot_score_the_answer_is_refused_before_any_call(
    rubric: str,
) -> None:
    executor = FakeExecutor(lambda _: "Answer: 42")
    with pytest.raises(InvalidInput) as raised:
        await score(ONE_CALL, executor=executor, task=make_workflow_task(rubric=rubric))
    assert raised.value.field == "task.environment.instance.rubric"
    task = make_workflow_task().model_copy(update={"reference": None})
    with pytest.raises(InvalidInput):
        await score(ONE_CALL, executor=executor, task=task)
    assert executor.asked == []
