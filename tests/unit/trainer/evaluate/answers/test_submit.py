"""Verdicts by /submit, on Assay's sandbox and from replies."""

from typing import Any

import pytest

from assay_sandbox.app import create_app
from assay_sandbox.settings import SandboxSettings
from assay_shared.clients import RetryBudget
from assay_shared.errors import InvalidInput, SandboxFault
from assay_shared.types import Scored, ScoreRequest, Status, StdinCase, Unscored
from assay_trainer.evaluate.answers.submit import SubmitClient, reward_of, submit_problem
from tests.conftest import Serve
from tests.support.fakes import make_task

DOUBLES = tuple(StdinCase(stdin=str(n), expected_stdout=str(2 * n)) for n in (1, 2, 3))
PROGRAMS = {
    "print(int(input()) * 2)": (Status.ACCEPTED, "3/3 tests passed"),
    "print(2)": (Status.WRONG_ANSWER, "1/3 tests passed"),
    "print(": (Status.SYNTAX_ERROR, "0/3 tests passed"),
    "print(1 / 0)": (Status.RUNTIME_ERROR, "0/3 tests passed"),
}


@pytest.mark.slow
async def test_programs_get_their_verdicts_from_a_real_sandbox(serve: Serve) -> None:
    url = serve(create_app(SandboxSettings()))
    answers = tuple(f"```python\n{program}\n```" for program in PROGRAMS)
    async with SubmitClient(url) as client:
        found = await client.score(
            ScoreRequest.model_validate({"task": make_task(tests=DOUBLES), "answers": answers})
        )

    assert found.scorer == f"submit@{url}"
    told = [
        (one.outcome, one.components[0].detail) for one in found.rewards if isinstance(one, Scored)
    ]
    assert told == [*PROGRAMS.values()]


async def test_a_server_that_is_away_costs_the_score_and_gives_none() -> None:
    retry = RetryBudget(attempts=1)
    request = ScoreRequest.model_validate({"task": make_task(tests=DOUBLES), "answers": ["x"]})
    async with SubmitClient("http://127.0.0.1:9", retry=retry) as client:
        (reward,) = (await client.score(request)).rewards
    assert isinstance(reward, Unscored)
    assert reward.failure.retryable


def test_a_problem_of_the_server_is_named_and_others_need_stdin_tests() -> None:
    named = make_task(checks={"submit": {"dataset": "code_contests", "id": 7}})
    found = submit_problem(named)
    assert (found["dataset"], found["id"]) == ("code_contests", 7)
    assert "provided_data" not in dict(found["config"])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="task.checks.submit: t has no stdin tests"):
        submit_problem(make_task(tests=()))


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"accepted": True}, "a reply without accepted and tests"),
        (
            {"accepted": False, "tests": [{"exec_info": {"status": "SandboxError"}}]},
            "the sandbox failed on a test",
        ),
    ],
)
def test_a_fault_of_the_server_is_never_a_score(reply: dict[str, Any], message: str) -> None:
    with pytest.raises(SandboxFault, match=message):
        reward_of(reply)


def test_a_run_over_its_time_is_a_time_limit() -> None:
    run = {"status": "Failed", "run_result": {"status": "TimeLimitExceeded"}}
    found = reward_of({"accepted": False, "tests": [{"passed": False, "exec_info": run}]})
    assert isinstance(found, Scored)
    assert found.outcome is Status.TIME_LIMIT
