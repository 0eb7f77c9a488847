"""Declarations of a route's errors for its OpenAPI page."""

from typing import Any

from assay_shared.errors import (
    AssayError,
    ErrorBody,
    Forbidden,
    InvalidInput,
    NotReady,
    Overloaded,
    TooLarge,
    Unauthorized,
)

#: Errors of any route: wrong or missing tokens, an exceeded rate limit, a stopping service.
_ANYWHERE = (Unauthorized, Forbidden, Overloaded, NotReady)
#: Errors of a request's body or query.
_OF_INPUT = (TooLarge, InvalidInput)


def errors_of_reading(*further: type[AssayError]) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route without input, with its `further` errors."""
    return _responses(_ANYWHERE + further)


def errors_of(*further: type[AssayError]) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route with a body or a query, with its `further` errors."""
    return _responses(_ANYWHERE + _OF_INPUT + further)


def _responses(kinds: tuple[type[AssayError], ...]) -> dict[int | str, dict[str, Any]]:
    found: dict[int | str, dict[str, Any]] = {}
    for kind in sorted(set(kinds), key=lambda one: (one.http_status, one.__name__)):
        text = f"{kind.__name__}: {(kind.__doc__ or '').partition(chr(10))[0]}"
        if kind.http_status in found:
            text = f"{found[kind.http_status]['description']} {text}"
        found[kind.http_status] = {"model": ErrorBody, "description": text}
    return found
