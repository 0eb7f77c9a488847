"""Typed errors of answers with an error status."""

from collections.abc import Mapping

from pydantic import ValidationError

from assay_shared.errors import (
    AssayError,
    ConfigError,
    ErrorBody,
    Forbidden,
    InternalFault,
    InvalidInput,
    NotReady,
    Overloaded,
    TimedOut,
    TooLarge,
    Unauthorized,
    Unreachable,
    from_body,
)

#: For answers without our error body, from a proxy or another server in between.
_BY_STATUS: Mapping[int, type[AssayError]] = {
    401: Unauthorized,
    403: Forbidden,
    408: TimedOut,
    413: TooLarge,
    429: Overloaded,
    502: Unreachable,
    503: NotReady,
    504: TimedOut,
}
#: Statuses of a foreign service that ask for a retry: a conflict with another request, or too
#: early. From one of our services, a conflict is the caller's fault.
_LATER = frozenset({409, 425})


def kind_of(status: int, *, is_ours: bool) -> type[AssayError]:
    """Return the error class of a status, for an answer without our error body."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status in _LATER and not is_ours:
        return NotReady
    if status >= 500:
        return InternalFault if is_ours and status == 500 else Unreachable
    return ConfigError if status < 400 else InvalidInput


def read_own(content: bytes) -> AssayError | None:
    """Return the error in the body, or None if none of our services wrote it."""
    try:
        return from_body(ErrorBody.model_validate_json(content))
    except ValidationError:
        return None
