"""Verdicts on programs by POST /submit, as SandboxFusion and Assay's sandbox serve it.

A task with stdin tests sends them along. A task whose check `submit` names a data set of the server
and an id is judged by the server's own tests: {"submit": {"dataset": "code_contests", "id": 7}}.
"""

from types import MappingProxyType
from typing import Any

from pydantic import JsonValue, TypeAdapter
from pydantic_core import to_json

from assay_shared.clients import ServiceClient
from assay_shared.errors import AssayError, InvalidInput, SandboxFault, to_failure
from assay_shared.runtime.gather import gather
from assay_shared.types import (
    Answer,
    Reward,
    RewardComponent,
    Scored,
    ScoreRequest,
    ScoreResponse,
    Status,
    StdinCase,
    StepRequest,
    StepResponse,
    Task,
    Unscored,
)

_REPLY: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_JSON = MappingProxyType({"content-type": "application/json"})
_TIMEOUT_S = 20
_LANGUAGE = "python"


class SubmitClient(ServiceClient):
    """A rewarder that asks /submit of the server at `base_url`."""

    service = "submit server"
    is_ours = False

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        """Return 1 for each accepted program, else 0; failures stand in the places of scores.

        Raises:
            InvalidInput: the task has no tests that could be sent.
        """
        problem = submit_problem(request.task)
        rewards = await gather(self._reward(problem, answer) for answer in request.answers)
        return ScoreResponse(rewards=tuple(rewards), scorer=f"submit@{self._base_url}")

    async def step(self, request: StepRequest) -> StepResponse:
        raise InvalidInput("/submit plays no episodes", field="task.environment")

    async def _reward(self, problem: dict[str, JsonValue], answer: Answer) -> Reward:
        body = problem | {"completion": answer.turns[-1]}
        try:
            reply = await self._call("POST", "/submit", to_json(body), _REPLY, _JSON)
            return reward_of(reply)
        except AssayError as error:
            return Unscored(failure=to_failure(error, self.service))


def submit_problem(task: Task) -> dict[str, JsonValue]:
    """Return the body of a request, but for its completion.

    Raises:
        InvalidInput: the task has neither stdin tests nor the check `submit`.
    """
    config: dict[str, JsonValue] = {
        "language": _LANGUAGE,
        "run_timeout": _TIMEOUT_S,
        "extra": {"run_all_cases": True},
    }
    named = task.checks.get("submit")
    if isinstance(named, dict) and {"dataset", "id"} <= named.keys():
        return {"dataset": named["dataset"], "id": named["id"], "config": config}
    cases = [case for case in task.tests if isinstance(case, StdinCase)]
    if not cases or len(cases) < len(task.tests):
        raise InvalidInput(
            f"{task.id} has no stdin tests, and names no problem of the server",
            field="task.checks.submit",
            hint="/submit takes tests of input and output, or a data set and an id",
        )
    tests: list[JsonValue] = [
        {"input": {"stdin": one.stdin}, "output": {"stdout": one.expected_stdout}} for one in cases
    ]
    config["provided_data"] = {"test": tests}
    return {"dataset": task.dataset or "tasks", "id": task.id, "config": config}


def reward_of(reply: dict[str, Any]) -> Reward:
    """Return the reward that a reply tells.

    Raises:
        SandboxFault: the server could not run the program, or the reply tells no verdict.
    """
    tests = reply.get("tests")
    if not isinstance(reply.get("accepted"), bool) or not isinstance(tests, list):
        raise SandboxFault("a reply without accepted and tests", service=SubmitClient.service)
    runs = [one.get("exec_info") or {} for one in tests if isinstance(one, dict)]
    if any(run.get("status") == "SandboxError" for run in runs):
        raise SandboxFault("the sandbox failed on a test", service=SubmitClient.service)
    num_passed = sum(bool(one.get("passed")) for one in tests if isinstance(one, dict))
    outcome = Status.ACCEPTED if reply["accepted"] else _outcome(runs)
    value = float(reply["accepted"])
    detail = f"{num_passed}/{len(tests)} tests passed"
    component = RewardComponent(name="submit", value=value, weight=1.0, detail=detail)
    return Scored(value=value, outcome=outcome, components=(component,))


def _outcome(runs: list[dict[str, Any]]) -> Status:
    """Return the outcome of a program that is not accepted, by its first run with an error."""
    for run in runs:
        result = run.get("run_result") or run.get("compile_result") or {}
        errors = str(result.get("stderr") or "")
        if result.get("status") == "TimeLimitExceeded":
            return Status.TIME_LIMIT
        if run.get("status") == "Failed" or result.get("status") == "Error":
            is_syntax = any(one in errors for one in ("SyntaxError", "IndentationError"))
            return Status.SYNTAX_ERROR if is_syntax else Status.RUNTIME_ERROR
    return Status.WRONG_ANSWER
