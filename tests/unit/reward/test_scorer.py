import asyncio
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from assay_reward.idempotency import ResponseCache
from assay_reward.instruments import Instruments
from assay_reward.rubric import Rubrics
from assay_reward.scorer import Scorer
from assay_reward.verifiers.code import PASS_RATIO
from assay_reward.verifiers.verifier import Measurement
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import (
    AssayError,
    Conflict,
    InvalidInput,
    JudgeFault,
    NotFound,
    Overloaded,
    SandboxFault,
)
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.types import (
    Answer,
    ComponentReport,
    Cost,
    FailureClass,
    GroupFailed,
    JudgeRequest,
    JudgeResponse,
    PartialReward,
    Reward,
    ScoreBatch,
    Scored,
    ScoreRequest,
    ScoreResponse,
    Status,
    StdinCase,
    Unscored,
)
from tests.support.fakes import FakeJudge, FakeSandbox, make_task
from tests.support.reward.measuring import WORKERS

TASK = make_task(tests=(StdinCase(stdin="", expected_stdout=""),) * 2, rubric="code.blend")
GATED = """
name: gated
description: Programs that pass at least half of the tests are judged.
components:
  - {verifier: pass_ratio, gate: 0.5}
  - {verifier: judge, weight: 2.0}
"""
HARD = """
name: hard
description: Patterns, and no reward for what takes too long.
too_hard: fail
components:
  - {verifier: pattern, weight: 1.0, options: {timeout_s: 0.05}}
"""

JUDGE_GATES = """
name: judge_gates
description: What two judges let pass is blended.
components:
  - {verifier: accepted, gate: 1}
  - {verifier: judge, gate: 0.5}
  - {verifier: judge, name: again, options: {template: other}, gate: 0.5}
  - {verifier: pass_ratio, weight: 1.0}
"""


@pytest.fixture
def rubrics(tmp_path: Path) -> Rubrics:
    (tmp_path / "gated.yaml").write_text(GATED)
    (tmp_path / "judge_gates.yaml").write_text(JUDGE_GATES)
    (tmp_path / "hard.yaml").write_text(HARD)
    wrong = HARD.replace("name: hard", "name: wrong").replace("too_hard: fail\n", "")
    (tmp_path / "wrong.yaml").write_text(wrong)
    return Rubrics(tmp_path)


Make = Callable[..., Scorer]


@pytest.fixture
def make(rubrics: Rubrics) -> Make:
    def scorer(
        sandbox: FakeSandbox | None = None, judge: FakeJudge | None = None, keep: int = 2**20
    ) -> Scorer:
        instruments = Instruments(
            sandbox or FakeSandbox(), judge or FakeJudge(), Symbolic(1.0), workers=WORKERS
        )
        return Scorer(
            rubrics, instruments, FairLimiter(4, 4), ResponseCache(keep), CollectorRegistry()
        )

    return scorer


def values(response: ScoreResponse) -> list[float | None]:
    return [r.value if isinstance(r, Scored) else None for r in response.rewards]


async def test_a_group_is_scored_in_order_and_failures_stay_where_they_are(make: Make) -> None:
    scorer = make(FakeSandbox(SandboxFault("no slot")))
    response = await scorer.score(ScoreRequest(task=TASK, answers=("pass 2", "fail", "pass 1")))
    assert values(response) == [1.0, None, 0.25]
    assert response.scorer.startswith("code.blend@")
    with pytest.raises(NotFound, match=r"no rubric is called 'code.dens' \(known: choice, "):
        await scorer.score(ScoreRequest(task=TASK, answers=("pass 1",), rubric="code.dens"))


async def test_of_an_episode_the_last_turn_is_the_answer(make: Make) -> None:
    answers = (("pass 0", "pass 2"), ("pass 2", "pass 0"), "pass 1")
    response = await make().score(ScoreRequest(task=TASK, answers=answers))
    assert values(response) == [1.0, 0.0, 0.25]


@pytest.mark.rule("rewards carry no noise, and a group without differences teaches nothing")
async def test_the_same_answers_get_the_same_rewards_every_time(make: Make) -> None:
    """No noise: equal answers have equal rewards, and such a group teaches nothing."""
    request = ScoreRequest(task=TASK, answers=("pass 1", "pass 1", "pass 2"))
    first, again = await make().score(request), await make().score(request)
    assert first.rewards == again.rewards
    assert first.rewards[0] == first.rewards[1]


# Gates


async def test_what_a_gate_turns_away_is_not_measured_further(make: Make) -> None:
    judge = FakeJudge()
    task = TASK.model_copy(update={"reference": "pass 2", "rubric": "gated"})
    response = await make(judge=judge).score(
        ScoreRequest(task=task, answers=("pass 0", "pass 2", "pass 1"))
    )
    assert values(response) == [0.0, 2.0, 0.0]
    (request,) = judge.requests
    assert request.answers == ("pass 2", "pass 1"), "one judge for those whose gate holds"
    away = response.rewards[0]
    assert isinstance(away, Scored)
    assert away.outcome is Status.WRONG_ANSWER
    assert [(c.name, c.value, c.weight) for c in away.components] == [
        ("pass_ratio", 0.0, 0.0),
        ("judge", 0.0, 2.0),
    ]
    assert "below its gate of 0.5" in away.components[1].detail


async def test_a_gate_that_cannot_be_measured_is_a_failure_and_no_score(make: Make) -> None:
    task = TASK.model_copy(update={"rubric": "gated"})
    scorer = make(FakeSandbox(SandboxFault("no slot")))
    response = await scorer.score(ScoreRequest(task=task, answers=("fail", "pass 2")))
    assert isinstance(response.rewards[0], Unscored)
    assert isinstance(response.rewards[1], Scored)


async def test_a_judge_is_a_gate_and_judges_those_whom_the_gates_before_let_in(make: Make) -> None:
    judge = FakeJudge()
    task = TASK.model_copy(update={"reference": "pass 2", "rubric": "judge_gates"})
    answers = ("pass 1", "pass 2", "pass 2 ", "pass 2")
    response = await make(judge=judge).score(ScoreRequest(task=task, answers=answers))
    assert values(response) == [0.0, 1.0, 0.0, 1.0]
    assert [one.answers for one in judge.requests] == [answers[1:], ("pass 2", "pass 2")]
    away = response.rewards[2]
    assert isinstance(away, Scored)
    assert away.components[0].name == "judge"


async def test_a_gate_that_turns_everyone_away_ends_the_measuring(make: Make) -> None:
    judge = FakeJudge()
    task = TASK.model_copy(update={"reference": "x", "rubric": "judge_gates"})
    response = await make(judge=judge).score(ScoreRequest(task=task, answers=("pass 1", "pass 0")))
    assert values(response) == [0.0, 0.0]
    assert judge.requests == []


@pytest.mark.parametrize("kind", [JudgeFault, InvalidInput])
async def test_a_judge_that_fails_as_a_gate_is_a_typed_failure(
    make: Make, kind: type[AssayError]
) -> None:
    task = TASK.model_copy(update={"reference": "pass 2", "rubric": "judge_gates"})
    response = await make(judge=FakeJudge(kind("no"))).score(
        ScoreRequest(task=task, answers=("pass 2", "pass 2"))
    )
    classes = {r.failure.failure_class for r in response.rewards if isinstance(r, Unscored)}
    assert classes == {kind.failure_class}


async def test_a_judge_that_answers_for_others_is_a_typed_failure(make: Make) -> None:
    class Short(FakeJudge):
        async def judge(self, request: JudgeRequest) -> JudgeResponse:
            whole = await super().judge(request)
            return whole.model_copy(update={"judgements": whole.judgements[:-1]})

    task = TASK.model_copy(update={"reference": "pass 2", "rubric": "gated"})
    scorer = make(judge=Short())
    response = await scorer.score(ScoreRequest(task=task, answers=("pass 2", "pass 1")))
    for reward in response.rewards:
        assert isinstance(reward, Unscored)
        assert "1 judgements for 2 answers" in reward.failure.message


async def test_an_answer_that_no_prompt_can_hold_is_a_typed_failure(make: Make) -> None:
    task = TASK.model_copy(update={"reference": "\ud800", "rubric": "gated"})
    response = await make().score(ScoreRequest(task=task, answers=("pass 2",)))
    (reward,) = response.rewards
    assert isinstance(reward, Unscored)
    assert reward.failure.failure_class is FailureClass.CALLER


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
async def test_a_value_that_is_not_finite_is_a_typed_failure(
    make: Make, rubrics: Rubrics, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measure(*_: object) -> Measurement:
        return Measurement(value, Status.ACCEPTED)

    kind = dataclasses.replace(PASS_RATIO, measure=measure)
    for component in rubrics.find("gated").components:
        if component.verifier == "pass_ratio":
            monkeypatch.setitem(component.__dict__, "kind", kind)
    task = TASK.model_copy(update={"rubric": "gated"})
    (reward,) = (await make().score(ScoreRequest(task=task, answers=("pass 2",)))).rewards
    assert isinstance(reward, Unscored)
    assert "not a finite number" in reward.failure.message


async def test_half_characters_of_an_answer_do_not_break_the_reply(make: Make) -> None:
    task = TASK.model_copy(update={"reference": "2", "rubric": "math"})
    response = await make().score(ScoreRequest(task=task, answers=("\ud800 2", "2")))
    assert values(response)[1] == 1.0
    assert response.model_dump_json()


# Keys


async def test_the_same_key_is_measured_once_and_answered_twice(make: Make) -> None:
    sandbox = FakeSandbox()
    scorer = make(sandbox)
    request = ScoreRequest(task=TASK, answers=("pass 2", "pass 1"), key="run/1/t/v3")
    first, second = await asyncio.gather(scorer.score(request), scorer.score(request))
    assert first == second == await scorer.score(request)
    assert len(sandbox.requests) == 2
    with pytest.raises(Conflict, match="key: the key was used for another request"):
        await scorer.score(request.model_copy(update={"answers": (Answer(text="pass 0"),)}))


async def test_a_response_with_a_failure_is_not_kept(make: Make) -> None:
    sandbox = FakeSandbox(SandboxFault("no slot"))
    scorer = make(sandbox)
    request = ScoreRequest(task=TASK, answers=("fail 1", "pass 1"), key="k")
    assert values(await scorer.score(request)) == [None, 0.25]
    sandbox.error = None
    request = ScoreRequest(task=TASK, answers=("pass 2", "pass 1"), key="k")
    assert values(await scorer.score(request)) == [1.0, 0.25]


async def test_what_is_kept_has_a_limit(make: Make) -> None:
    sandbox = FakeSandbox()
    scorer = make(sandbox, keep=2000)
    for number in range(20):
        await scorer.score(ScoreRequest(task=TASK, answers=("pass 2",), key=str(number)))
    for number in (19, 0):
        await scorer.score(ScoreRequest(task=TASK, answers=("pass 2",), key=str(number)))
    assert len(sandbox.requests) == 21, "the newest was kept, the oldest was not"


async def test_two_requests_with_one_key_at_once_take_the_room_of_one(make: Make) -> None:
    sandbox = FakeSandbox()
    scorer = make(sandbox, keep=2000)
    for number in range(20):
        pair = (("pass 2",), ("pass 1",))
        same_key = (ScoreRequest(task=TASK, answers=one, key=str(number)) for one in pair)
        await asyncio.gather(*(scorer.score(request) for request in same_key))
    num_measured = len(sandbox.requests)
    last = ScoreRequest(task=TASK, answers=("pass 2",), key="last")
    assert await scorer.score(last) == await scorer.score(last)
    assert len(sandbox.requests) == num_measured + 1


# Batches and streams


async def test_a_batch_keeps_its_order_and_one_bad_group_spoils_no_other(make: Make) -> None:
    good = ScoreRequest(task=TASK, answers=("pass 1",))
    bad = ScoreRequest(task=TASK, answers=("pass 1",), rubric="nonsense")
    batch = await make().score_batch(ScoreBatch(requests=(good, bad, good)))
    first, second, third = batch.responses
    assert isinstance(first, ScoreResponse)
    assert isinstance(second, GroupFailed)
    assert "no rubric is called" in second.failure.message
    assert isinstance(third, ScoreResponse)
    assert values(third) == [0.25]


class SlowSandbox(FakeSandbox):
    """Holds back every program but `pass 1` until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def test(self, request):  # type: ignore[no-untyped-def]  # as its parent's
        if "pass 1" not in request.code:
            await asyncio.wait_for(self.go.wait(), 5.0)
        return await super().test(request)


async def test_a_stream_gives_each_reward_when_it_is_known(make: Make) -> None:
    sandbox = SlowSandbox()
    parts = make(sandbox).stream(ScoreRequest(task=TASK, answers=("pass 2", "pass 1", "pass 0")))
    first = await anext(parts)
    assert isinstance(first, PartialReward)
    assert first.index == 1
    sandbox.go.set()
    rest = [part async for part in parts]
    rewards: dict[int, Reward] = {
        part.index: part.reward for part in (first, *rest) if isinstance(part, PartialReward)
    }
    whole = rest[-1]
    assert isinstance(whole, ScoreResponse)
    assert values(whole) == [1.0, 0.25, 0.0]
    assert whole.rewards == tuple(rewards[index] for index in range(3))


# Effort and backpressure


class CostlyJudge(FakeJudge):
    async def judge(self, request):  # type: ignore[no-untyped-def]  # as its parent's
        response = await super().judge(request)
        return response.model_copy(update={"cost": Cost(judge_tokens=300, money=0.5)})


async def test_each_component_says_what_it_took(make: Make) -> None:
    task = TASK.model_copy(update={"rubric": "gated"})
    response = await make(judge=CostlyJudge()).score(
        ScoreRequest(task=task, answers=("pass 2", "pass 2", "pass 1"))
    )
    tests, judge = response.components
    assert isinstance(tests, ComponentReport)
    assert (tests.name, judge.name) == ("pass_ratio", "judge")
    assert judge.cost == Cost(judge_tokens=300, money=0.5)
    assert 0 < tests.time_s < 5


async def test_a_neighbour_without_room_for_anything_becomes_a_429(make: Make) -> None:
    full = Overloaded("full", service="sandbox", retry_after_s=7.0)
    scorer = make(FakeSandbox(full))
    with pytest.raises(Overloaded) as refused:
        await scorer.score(ScoreRequest(task=TASK, answers=("fail a", "fail b")))
    assert refused.value.retry_after_s == 7.0
    assert refused.value.service == "sandbox"
    response = await scorer.score(ScoreRequest(task=TASK, answers=("fail a", "pass 2")))
    (lost, kept) = response.rewards
    assert isinstance(lost, Unscored)
    assert lost.failure.failure_class is FailureClass.OVERLOAD
    assert isinstance(kept, Scored)


@pytest.mark.rule("a judge that says nothing has given no verdict, and is asked differently")
async def test_an_abstaining_judge_is_a_failure_of_every_answer(make: Make) -> None:
    task = TASK.model_copy(update={"rubric": "qa"})
    scorer = make(judge=FakeJudge(JudgeFault("empty reply", service="judge")))
    response = await scorer.score(ScoreRequest(task=task, answers=("red", "blue")))
    for reward in response.rewards:
        assert isinstance(reward, Unscored)
        assert reward.failure.failure_class is FailureClass.JUDGE


async def test_what_is_too_hard_is_wrong_or_has_no_reward_and_is_counted(rubrics: Rubrics) -> None:
    registry = CollectorRegistry()
    instruments = Instruments(FakeSandbox(), FakeJudge(), Symbolic(1.0), workers=WORKERS)
    scorer = Scorer(rubrics, instruments, FairLimiter(4, 4), ResponseCache(0), registry)
    task = make_task("t", checks={"pattern": {"pattern": "(a|aa)+$"}})
    answers = ("a" * 60 + "b", "aa")
    wrong = await scorer.score(ScoreRequest(task=task, answers=answers, rubric="wrong"))
    assert values(wrong) == [0.0, 1.0]
    assert isinstance(wrong.rewards[0], Scored)
    assert wrong.rewards[0].outcome is Status.WRONG_ANSWER
    assert wrong.rewards[0].components[0].detail.startswith("too hard: ")
    failed = await scorer.score(ScoreRequest(task=task, answers=answers, rubric="hard"))
    assert values(failed) == [None, 1.0]
    assert isinstance(failed.rewards[0], Unscored)
    assert failed.rewards[0].failure.failure_class is FailureClass.BUDGET
    assert not failed.rewards[0].failure.retryable
    for rubric in ("wrong", "hard"):
        labels = {"rubric": rubric, "component": "pattern"}
        assert registry.get_sample_value("assay_reward_too_hard_total", labels) == 1.0
