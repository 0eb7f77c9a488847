"""Failures as they are stored and sent: the party at fault, and if a retry may help."""

from enum import StrEnum

from pydantic import Field, model_validator

from assay_shared.types.wire import ShownText, Wire


class FailureClass(StrEnum):
    """The party at fault. `policy` is the answer's own fault: a score, never a failure.

    `caller`: an unusable request, task or option. `executor`: the models that answer the calls of
    workflows.
    """

    POLICY = "policy"
    CALLER = "caller"
    SANDBOX = "sandbox"
    JUDGE = "judge"
    EXECUTOR = "executor"
    NETWORK = "network"
    OVERLOAD = "overload"
    BUDGET = "budget"
    INTERNAL = "internal"


class Failure(Wire):
    """The reason for a sample without a score.

    The sample is left out of the loss and of the group statistics, and is counted.
    """

    #: Whose fault it is.
    failure_class: FailureClass
    #: The service in which it happened.
    service: str
    #: For people: what happened and what to do.
    message: ShownText
    #: Whether the same request may succeed later.
    retryable: bool
    #: Number of attempts.
    attempts: int = Field(default=1, ge=0)

    @model_validator(mode="after")
    def _not_the_policys(self) -> "Failure":
        if self.failure_class is FailureClass.POLICY:
            raise ValueError("a fault of the policy is a score, not a failure")
        return self
