"""A failure as it is stored and sent: whose fault, and whether a retry helps."""

from enum import StrEnum

from pydantic import Field, model_validator

from assay_shared.types.wire import ShownText, Wire


class FailureClass(StrEnum):
    """Whose fault. `policy` marks the answer's own fault, which is a score and never a failure.

    `caller`: a request, task or option that cannot be used.
    """

    POLICY = "policy"
    CALLER = "caller"
    SANDBOX = "sandbox"
    JUDGE = "judge"
    NETWORK = "network"
    OVERLOAD = "overload"
    BUDGET = "budget"
    INTERNAL = "internal"


class Failure(Wire):
    """Why a sample has no score. It leaves the loss and the group statistics, and is counted."""

    #: Whose fault it is.
    failure_class: FailureClass
    #: The service in which it happened.
    service: str
    #: For people: what happened and what to do.
    message: ShownText
    #: Whether the same request may succeed later.
    retryable: bool
    #: How often it was tried.
    attempts: int = Field(default=1, ge=0)

    @model_validator(mode="after")
    def _not_the_policys(self) -> "Failure":
        if self.failure_class is FailureClass.POLICY:
            raise ValueError("a fault of the policy is a score, not a failure")
        return self
