import pickle

import pytest

from assay_shared.errors import (
    ERRORS,
    AssayError,
    CallerError,
    ErrorBody,
    ErrorDetail,
    InfrastructureError,
    Overloaded,
    SandboxFault,
    TooHard,
    from_body,
    to_body,
    to_failure,
)
from assay_shared.types import FailureClass

LEAVES = [cls for cls in ERRORS.values() if not cls.__subclasses__()]


@pytest.mark.parametrize("cls", ERRORS.values(), ids=ERRORS)
def test_every_error_survives_pickling_and_the_wire(cls: type[AssayError]) -> None:
    error = cls("it broke", field="a.b", hint="fix it", retry_after_s=2.0, attempts=3)
    for again in (pickle.loads(pickle.dumps(error)), from_body(to_body(error, "judge", "id"))):
        assert type(again) is cls
        assert str(again) == "a.b: it broke (fix it)"
        assert (again.retry_after_s, again.attempts) == (2.0, 3)


@pytest.mark.parametrize("cls", LEAVES, ids=lambda cls: cls.__name__)
def test_every_error_says_whose_fault_it_is(cls: type[AssayError]) -> None:
    assert issubclass(cls, CallerError | InfrastructureError | TooHard)  # whose is the policy's
    assert cls.http_status >= 400
    assert cls.failure_class is not FailureClass.POLICY
    if issubclass(cls, CallerError):
        assert not cls.retryable
        assert cls.http_status < 500


def test_an_error_passed_on_keeps_its_first_service() -> None:
    body = to_body(SandboxFault("no slot", service="sandbox"), "reward", None)
    assert body.error.service == "sandbox"


def test_a_body_of_another_program_is_not_ours() -> None:
    detail = ErrorDetail(message="slow down", type="rate_limit_error")
    assert from_body(ErrorBody(error=detail)) is None


def test_a_failure_tells_the_class_and_whether_to_retry() -> None:
    failure = to_failure(Overloaded("full", attempts=4), "sandbox")
    assert failure.failure_class is FailureClass.OVERLOAD
    assert (failure.service, failure.retryable, failure.attempts) == ("sandbox", True, 4)
