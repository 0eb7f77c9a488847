"""Errors of all services.

AssayError
├── CallerError                 the caller's fault: a retry cannot help
│   ├── InvalidInput       422  a request, option or file that cannot be used
│   │   ├── ConfigError    422  a run file, rubric or setting
│   │   ├── DatasetError   422  a dataset, with file, line and field
│   │   └── RoleError      422  a test-only task opened for training
│   ├── Unauthorized       401  no token, or a wrong one
│   ├── Forbidden          403  a token without the required scope
│   ├── NotFound           404
│   ├── Conflict           409  weights that go backwards, a run that is already running
│   └── TooLarge           413  a body over the limit
├── TooHard                422  a policy's text takes too much time or memory to score:
│                               a wrong answer, unless the rubric says otherwise
└── InfrastructureError         our own fault or a neighbour's: never a score
    ├── Overloaded         429  no room for now; Retry-After says when
    │   └── Saturated      503  the same, from a sandbox: nothing was run
    ├── NotReady           503  starting, stopping, or no weights loaded yet
    ├── Unreachable        502  no connection, or it broke
    │   └── Refused        502  nobody listens at the address
    ├── TimedOut           504  no answer in time
    ├── SandboxFault       500  a program could not be started, watched or cleaned up
    ├── SolverFault        500  a solver ended without a result for a model
    ├── JudgeFault         502  no provider gave a usable verdict
    ├── ModelFault         502  a model's endpoint gave no usable reply
    │   └── ExecutorFault  502  no executor model carried a workflow out
    ├── RewardFault        500  a user's own reward gave an unusable result
    ├── BudgetExceeded     402  a cost or retry budget is spent
    ├── EngineFault        500  an engine failed on a request, or ran out of memory
    │   └── NotFinite      500  a model gave logits that are not finite
    ├── WeightsRefused     422  a checkpoint is incomplete, corrupt or not as announced
    └── InternalFault      500  a bug

Each class states the party at fault (`failure_class`), if a retry can help (`retryable`) and its
HTTP status. Errors travel as `ErrorBody` and are raised again as the same class.
"""

from typing import ClassVar

from pydantic import BaseModel

from assay_shared.types import Failure, FailureClass
from assay_shared.types.described import Described


class AssayError(Exception):
    """Base of all errors: a message for people, and the details for a program to react to."""

    http_status: ClassVar[int] = 500
    failure_class: ClassVar[FailureClass] = FailureClass.INTERNAL
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        hint: str | None = None,
        service: str | None = None,
        retry_after_s: float | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.hint = hint
        self.service = service
        self.retry_after_s = retry_after_s
        self.attempts = attempts

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self._details()))

    def _details(self) -> dict[str, object]:
        names = ("field", "hint", "service", "retry_after_s", "attempts")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{self.message}{hint}"


def _rebuild(cls: type[AssayError], message: str, details: dict[str, object]) -> AssayError:
    return cls(message, **details)  # type: ignore[arg-type]  # the values come from _details


class CallerError(AssayError):
    """The caller's fault."""

    http_status = 422
    failure_class = FailureClass.CALLER


class InvalidInput(CallerError):
    """A request, option or file is unusable."""


class ConfigError(InvalidInput):
    """A run file, rubric or setting is unusable."""


class DatasetError(InvalidInput):
    """A dataset is unusable."""


class RoleError(InvalidInput):
    """A task was opened for a use forbidden by its role."""


class Unauthorized(CallerError):
    """No token, or a wrong one."""

    http_status = 401


class Forbidden(CallerError):
    """A token without the required scope."""

    http_status = 403


class NotFound(CallerError):
    """There is no such thing here."""

    http_status = 404


class Conflict(CallerError):
    """The request contradicts the present state."""

    http_status = 409


class TooLarge(CallerError):
    """The request body is over the limit."""

    http_status = 413


class TooHard(AssayError):
    """A policy's text takes more time or memory to score than allowed."""

    http_status = 422
    failure_class = FailureClass.BUDGET


class InfrastructureError(AssayError):
    """Our own fault or a neighbour's."""


class Overloaded(InfrastructureError):
    """No room for now."""

    http_status = 429
    failure_class = FailureClass.OVERLOAD
    retryable = True


class Saturated(Overloaded):
    """No room in the sandbox for now: nothing was run."""

    http_status = 503


class NotReady(InfrastructureError):
    """Starting, stopping, or not yet able to serve, for example without weights."""

    http_status = 503
    failure_class = FailureClass.OVERLOAD
    retryable = True


class Unreachable(InfrastructureError):
    """No connection, or it broke."""

    http_status = 502
    failure_class = FailureClass.NETWORK
    retryable = True


class Refused(Unreachable):
    """Nobody listens at a service's address."""


class TimedOut(InfrastructureError):
    """No answer in time."""

    http_status = 504
    failure_class = FailureClass.NETWORK
    retryable = True


class SandboxFault(InfrastructureError):
    """A program could not be started, watched or cleaned up."""

    http_status = 500
    failure_class = FailureClass.SANDBOX
    retryable = True


class SolverFault(InfrastructureError):
    """A solver ended without a result for a model."""

    http_status = 500
    failure_class = FailureClass.INTERNAL
    retryable = True


class RewardFault(InfrastructureError):
    """A user's own reward gave an unusable result."""

    http_status = 500
    failure_class = FailureClass.INTERNAL


class JudgeFault(InfrastructureError):
    """No provider gave a usable verdict."""

    http_status = 502
    failure_class = FailureClass.JUDGE
    retryable = True


class ModelFault(InfrastructureError):
    """A model's endpoint gave no usable reply."""

    http_status = 502
    failure_class = FailureClass.EXECUTOR
    retryable = True


class ExecutorFault(ModelFault):
    """No executor model carried a workflow out."""


class BudgetExceeded(InfrastructureError):
    """A cost or retry budget is spent."""

    http_status = 402
    failure_class = FailureClass.BUDGET


class EngineFault(InfrastructureError):
    """An engine failed on a request or a load: out of memory, for example."""

    http_status = 500
    failure_class = FailureClass.INTERNAL
    retryable = True


class NotFinite(EngineFault):
    """The logits of a sample are not finite, so no token can be sampled."""


class WeightsRefused(InfrastructureError):
    """A checkpoint is incomplete, corrupt or not as announced."""

    http_status = 422


class InternalFault(InfrastructureError):
    """A bug of ours."""


def _walk(cls: type[AssayError]) -> dict[str, type[AssayError]]:
    found = {cls.__name__: cls}
    for child in cls.__subclasses__():
        found |= _walk(child)
    return found


ERRORS: dict[str, type[AssayError]] = _walk(AssayError)


class ErrorDetail(Described, BaseModel):
    """The details of an error. OpenAI clients understand the names `type`, `param` and `code`."""

    #: For people: what is wrong.
    message: str
    #: The kind of error.
    type: str
    #: The field of the request that is wrong.
    param: str | None = None
    #: Equal to `type`.
    code: str | None = None
    #: For people: what to do.
    hint: str | None = None
    #: Whose fault it is.
    failure_class: FailureClass = FailureClass.INTERNAL
    #: Whether the same request may succeed later.
    retryable: bool = False
    #: Seconds to wait before a retry; also in the header Retry-After.
    retry_after_s: float | None = None
    #: The service in which it happened.
    service: str | None = None
    #: Number of attempts.
    attempts: int = 1
    #: The id of the request, in every log line about it.
    request_id: str | None = None


class ErrorBody(Described, BaseModel):
    """The body of every unsuccessful response."""

    #: What went wrong.
    error: ErrorDetail


def to_body(error: AssayError, service: str, request_id: str | None) -> ErrorBody:
    """Return the body of an error from `service`; a forwarded error keeps its first service."""
    return ErrorBody(
        error=ErrorDetail(
            message=error.message,
            type=type(error).__name__,
            param=error.field,
            code=type(error).__name__,
            hint=error.hint,
            failure_class=error.failure_class,
            retryable=error.retryable,
            retry_after_s=error.retry_after_s,
            service=error.service or service,
            attempts=error.attempts,
            request_id=request_id,
        )
    )


def from_body(body: ErrorBody) -> AssayError | None:
    """Return the error of a body by `to_body`, in the same class; None for another's body."""
    detail = body.error
    if detail.type not in ERRORS:
        return None
    return ERRORS[detail.type](
        detail.message,
        field=detail.param,
        hint=detail.hint,
        service=detail.service,
        retry_after_s=detail.retry_after_s,
        attempts=detail.attempts,
    )


def to_failure(error: AssayError, service: str) -> Failure:
    """Return the error as a failure, the reason for a sample without a score."""
    return Failure(
        failure_class=error.failure_class,
        service=error.service or service,
        message=str(error),
        retryable=error.retryable,
        attempts=error.attempts,
    )
