"""For every neighbour of a verifier, a failure on the way is never a score."""

from typing import Any

import pytest

from assay_reward.verifiers import VERIFIERS
from assay_reward.verifiers.verifier import ValueRange, Verifier
from assay_shared.errors import (
    AssayError,
    BudgetExceeded,
    JudgeFault,
    Overloaded,
    SandboxFault,
    TimedOut,
    Unreachable,
)
from assay_shared.types import Abstention, Failure, FailureClass, JudgeRequest, JudgeResponse
from tests.support.fakes import FAILURE, FakeJudge, FakeSandbox
from tests.support.reward.measuring import find, measure

CRITERION = {"name": "style", "description": "Is it well written?"}
OPTIONS: dict[str, dict[str, object]] = {"graded": {"criteria": [CRITERION]}}
OF_PROGRAMS = ("accepted", "pass_ratio", "repair", "rltf_adaptive", "rltf_coarse")
OF_A_JUDGE = ("graded", "judge", "qa")
ERRORS = (
    TimedOut("no answer in time"),
    Unreachable("no connection"),
    Overloaded("full"),
    BudgetExceeded("spent"),
)


@pytest.mark.parametrize("name", OF_PROGRAMS)
@pytest.mark.parametrize(
    "error", [*ERRORS, SandboxFault("no slot")], ids=lambda e: type(e).__name__
)
async def test_a_sandbox_that_fails_leaves_no_score(name: str, error: AssayError) -> None:
    """No heuristic takes the place of a measurement, and our own time-out never counts as a time
    limit.
    """
    found = await find(VERIFIERS[name], "fail", "pass 4", sandbox=FakeSandbox(error))
    assert isinstance(found[0], Failure)
    assert found[0].failure_class is error.failure_class
    assert not isinstance(found[1], Failure)


@pytest.mark.parametrize("name", OF_A_JUDGE)
@pytest.mark.parametrize("error", [*ERRORS, JudgeFault("empty")], ids=lambda e: type(e).__name__)
async def test_a_judge_that_fails_leaves_no_score(name: str, error: AssayError) -> None:
    given: dict[str, Any] = {"judge": FakeJudge(error), "options": OPTIONS.get(name)}
    assert await measure(VERIFIERS[name], "red", "blue", **given) == [None, None]


class AbstainingJudge(FakeJudge):
    """Has no verdict on any answer."""

    async def judge(self, request: JudgeRequest) -> JudgeResponse:
        failure = FAILURE.model_copy(update={"failure_class": FailureClass.JUDGE})
        return JudgeResponse(judgements=(Abstention(failure=failure),) * len(request.answers))


@pytest.mark.parametrize("name", OF_A_JUDGE)
async def test_no_verdict_is_not_read_as_a_wrong_answer(name: str) -> None:
    given: dict[str, Any] = {"judge": AbstainingJudge(), "options": OPTIONS.get(name)}
    for found in await find(VERIFIERS[name], "red", "blue", **given):
        assert isinstance(found, Failure)
        assert found.failure_class is FailureClass.JUDGE


SPANS: dict[str, tuple[dict[str, object], ValueRange]] = {
    "overlong": ({"max_tokens": 10, "buffer_tokens": 5}, ValueRange(-1, 0)),
    "repair": (
        {"round_penalty": 0.1, "max_rounds": 3, "accepted_bonus": 0.5},
        ValueRange(-0.2, 1.5),
    ),
    "rltf_adaptive": ({}, ValueRange(-0.3, 1)),
    "rltf_coarse": ({}, ValueRange(-1, 1)),
    "repetition": ({}, ValueRange(0, 1)),
}


@pytest.mark.parametrize("name", SPANS)
def test_spans_follow_the_options(name: str) -> None:
    options, span = SPANS[name]
    verifier: Verifier[Any] = VERIFIERS[name]
    found = verifier.span(verifier.options.model_validate(options))
    assert (found.low, found.high) == pytest.approx((span.low, span.high))
