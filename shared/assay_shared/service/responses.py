"""The errors that routes declare on their OpenAPI pages."""

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

#: Where tokens are set, where a key has asked too often, and while a service stops.
_ANYWHERE = (Unauthorized, Forbidden, Overloaded, NotReady)
#: What may be wrong with what is sent.
_OF_INPUT = (TooLarge, InvalidInput)


def errors_of_reading(*further: type[AssayError]) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that takes nothing, with its `further` errors."""
    return _responses(_ANYWHERE + further)


def errors_of(*further: type[AssayError]) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that takes a body or a query."""
    return _responses(_ANYWHERE + _OF_INPUT + further)


def _responses(kinds: tuple[type[AssayError], ...]) -> dict[int | str, dict[str, Any]]:
    found: dict[int | str, dict[str, Any]] = {}
    for kind in sorted(set(kinds), key=lambda one: (one.http_status, one.__name__)):
        text = f"{kind.__name__}: {(kind.__doc__ or '').partition(chr(10))[0]}"
        if kind.http_status in found:
            text = f"{found[kind.http_status]['description']} {text}"
        found[kind.http_status] = {"model": ErrorBody, "description": text}
    return found
