from typing import Any

import pytest

from assay_reward.verifiers.code import ACCEPTED
from assay_reward.verifiers.repair import REPAIR
from assay_reward.verifiers.rltf import RLTF_ADAPTIVE, RLTF_COARSE
from assay_reward.verifiers.verifier import Measurement, Verifier
from assay_shared.types import CaseResult, Failure, FailureClass, Status, TestReport, TestRequest
from tests.support.fakes import FakeSandbox
from tests.support.reward.measuring import find, measure


class StatusSandbox(FakeSandbox):
    """Ends every program as it says itself."""

    async def test(self, request: TestRequest) -> TestReport:
        report = await super().test(request.model_copy(update={"code": "pass 0"}))
        status = Status(request.code)
        return report.model_copy(
            update={"status": status, "cases": (CaseResult(status=status), *report.cases[1:])}
        )


@pytest.mark.parametrize(
    ("status", "value"),
    [
        (Status.ACCEPTED, 1.0),
        (Status.WRONG_ANSWER, -0.3),
        (Status.RUNTIME_ERROR, -0.6),
        (Status.TIME_LIMIT, -0.6),
        (Status.MEMORY_LIMIT, -0.6),
        (Status.OUTPUT_LIMIT, -0.6),
        (Status.SYNTAX_ERROR, -1.0),
        (Status.COMPILE_ERROR, -1.0),
    ],
)
async def test_coarse_feedback_has_four_values(status: Status, value: float) -> None:
    assert await measure(RLTF_COARSE, str(status), sandbox=StatusSandbox()) == [value]


async def test_a_sandbox_error_has_no_rltf_value() -> None:
    for verifier in (RLTF_COARSE, RLTF_ADAPTIVE, REPAIR, ACCEPTED):
        (found,) = await find(verifier, str(Status.SANDBOX_ERROR), sandbox=StatusSandbox())
        assert isinstance(found, Failure)
        assert found.failure_class is FailureClass.SANDBOX


async def test_adaptive_feedback_grows_with_the_share_of_tests() -> None:
    found = await measure(RLTF_ADAPTIVE, *(f"pass {n}" for n in range(5)))
    assert found == pytest.approx([-0.3, 0.025, 0.35, 0.675, 1.0])


@pytest.mark.parametrize("verifier", [RLTF_COARSE, RLTF_ADAPTIVE])
async def test_a_cut_off_program_is_not_scored_as_a_syntax_error(verifier: Verifier[Any]) -> None:
    texts = (str(Status.SYNTAX_ERROR), str(Status.SYNTAX_ERROR), str(Status.WRONG_ANSWER))
    given: dict[str, Any] = {"sandbox": StatusSandbox(), "truncated": (True, False, True)}
    cut, broken, wrong = await find(verifier, *texts, **given)
    assert isinstance(cut, Failure)
    assert cut.failure_class is FailureClass.BUDGET
    assert isinstance(broken, Measurement)
    assert isinstance(wrong, Measurement)
    assert broken.value <= wrong.value
    scored, *_ = await find(verifier, *texts, **given, options={"score_truncated": True})
    assert scored == broken


async def test_repair_counts_the_last_program_and_charges_for_rounds() -> None:
    answers = ("pass 4", ("pass 0", "pass 4"), ("pass 4", "pass 2"), ("pass 0",) * 20)
    found = await measure(REPAIR, *answers, options={"round_penalty": 0.1, "max_rounds": 4})
    assert found == pytest.approx([1.2, 1.1, 0.4, -0.3])
