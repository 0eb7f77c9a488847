import pytest
from pydantic import ValidationError

from assay_shared import types
from assay_shared.types import (
    CallCase,
    CaseResult,
    Failure,
    FailureClass,
    GenerateRequest,
    Grading,
    LogprobProbe,
    Message,
    Status,
    StdinCase,
    TestReport,
    TestRequest,
    Wire,
)

ALL = [
    value
    for value in vars(types).values()
    if isinstance(value, type) and issubclass(value, Wire) and value is not Wire
]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_wire_types_are_frozen_closed_and_documented(cls: type[Wire]) -> None:
    assert cls.model_config["frozen"]
    assert cls.model_config["extra"] == "forbid"
    assert cls.__doc__


def test_a_fault_of_the_policy_cannot_be_a_failure() -> None:
    with pytest.raises(ValidationError, match="is a score, not a failure"):
        Failure(failure_class=FailureClass.POLICY, service="x", message="m", retryable=False)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"prompt": "a", "token_ids": (1,)},
        {"prompt": ""},
        {"messages": ()},
    ],
)
def test_a_generate_request_has_exactly_one_prompt(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GenerateRequest.model_validate(fields)
    GenerateRequest(messages=(Message(role="user", content="a"),))


def test_cases_of_one_request_are_of_one_kind() -> None:
    mixed = (StdinCase(stdin="", expected_stdout=""), CallCase(function="f", args=(), expected=1))
    with pytest.raises(ValidationError, match="one kind, not call, stdin"):
        TestRequest(code="", cases=mixed)


def test_a_probe_has_one_logprob_per_prediction() -> None:
    with pytest.raises(ValidationError, match="one shorter"):
        LogprobProbe(token_ids=(1, 2, 3), logprobs=(0.0,))


def test_cases_that_did_not_run_are_not_passed() -> None:
    statuses = (Status.ACCEPTED, Status.WRONG_ANSWER, None, None)
    report = TestReport(
        status=Status.WRONG_ANSWER,
        cases=tuple(CaseResult(status=status) for status in statuses),
        grading=Grading.OUTSIDE,
        isolation="x",
    )
    assert report.pass_ratio == 0.25
