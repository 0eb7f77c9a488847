"""Check of scoring: reward scores a right and a wrong program with the sandbox."""

from typing import cast

from assay_shared.clients import RewardClient
from assay_shared.doctor.findings import CheckResult, CheckStatus, ServiceLimits
from assay_shared.doctor.services import client_of
from assay_shared.errors import AssayError, Unauthorized, Unreachable
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import CallCase, Role, Scored, ScoreRequest, Task
from assay_shared.types import Status as Outcome

_RUBRIC = "code.sparse"
_TASK = Task(
    id="doctor",
    dataset="doctor",
    role=Role.TEST,
    prompt="Write solve(x), which adds one.",
    rubric=_RUBRIC,
    tests=(CallCase(function="solve", args=(1,), expected=2),),
)
_ANSWERS = ("def solve(x):\n    return x + 1\n", "def solve(x):\n    return x\n")
#: Factor on the timeout: a busy sandbox takes longer than a health check.
_TIMES_LONGER = 6


async def examine_scoring(settings: ServiceSettings, limits: ServiceLimits) -> list[CheckResult]:
    """Return a finding, or none if reward is unreachable, since its own check reports this."""
    patient = limits.model_copy(update={"timeout_s": _TIMES_LONGER * limits.timeout_s})
    try:
        async with cast(RewardClient, client_of(RewardClient, settings, patient)) as reward:
            response = await reward.score(ScoreRequest(task=_TASK, answers=_ANSWERS))
    except (Unreachable, Unauthorized) as error:
        return [] if error.service == "reward" else [_failed(error.service or "", str(error))]
    except AssayError as error:
        return [_failed(error.service or "reward", str(error))]
    for one in response.rewards:
        if not isinstance(one, Scored):
            return [_failed(one.failure.service, one.failure.message)]
    outcomes = [one.outcome for one in response.rewards if isinstance(one, Scored)]
    if outcomes != [Outcome.ACCEPTED, Outcome.WRONG_ANSWER]:
        found = f"a right and a wrong program came out as {' and '.join(outcomes)}"
        return [CheckResult(CheckStatus.FAIL, "scoring", found, "read the sandbox's log")]
    found = "a right program is accepted and a wrong one is not"
    return [CheckResult(CheckStatus.OK, "scoring", found)]


def _failed(service: str, message: str) -> CheckResult:
    return CheckResult(
        CheckStatus.FAIL,
        "scoring",
        f"a program got no reward because of {service}: {message}",
        "are the sandbox's address (ASSAY_SANDBOX_URL) and token right in reward's environment?",
    )
