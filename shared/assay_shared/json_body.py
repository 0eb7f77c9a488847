"""A request's body as the model of its route, and what is said of one that is no such model."""

import json
from dataclasses import dataclass
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from assay_shared.strict_json import DuplicateKey, check_keys

#: With more errors than this, what was sent is not repeated.
_SHOWN_ERRORS = 1000


@dataclass(frozen=True)
class Problem:
    """The first thing wrong with a body, and how many there are."""

    error: dict[str, Any]
    num_errors: int = 1


class InvalidBody(RequestValidationError):
    """A body that is not what its route takes. It has one error, whatever their number."""

    def __init__(self, problem: Problem) -> None:
        super().__init__([problem.error])
        self.num_errors = problem.num_errors


class Unreadable(Exception):
    """A body that is no JSON, or nests too deep to be read."""


def check_presence(has_body: bool, content_type: str) -> Problem | None:
    """Return what is wrong before a body is read: it is missing, or is not said to be JSON."""
    if not has_body:
        return Problem({"type": "missing", "loc": ("body",), "msg": "Field required"})
    kind = content_type.partition(";")[0].strip().lower()
    main, _, sub = kind.partition("/")
    if main == "application" and (sub == "json" or sub.endswith("+json")):
        return None
    return _no_object()


def read_body(model: type[BaseModel], body: bytes) -> BaseModel | Problem:
    """Return a body as `model`, or what is wrong with it.

    Raises:
        Unreadable: it is no text, or nests by the hundreds.
    """
    try:
        found: BaseModel = model.__pydantic_validator__.validate_json(body)
        check_keys(body)
        return found
    except DuplicateKey as error:
        return _twice(error)
    except ValidationError as error:
        problem = _first(error)
    except ValueError as error:
        raise Unreadable from error
    if problem.error["type"] != "json_invalid":
        return problem
    return _read_slowly(model, body)


def _read_slowly(model: type[BaseModel], body: bytes) -> BaseModel | Problem:
    """Read with Python's parser, which takes more: lone surrogates, UTF-16, more nesting."""
    try:
        check_keys(body)
        value = json.loads(body)
    except DuplicateKey as error:
        return _twice(error)
    except json.JSONDecodeError as error:
        said = {"type": "json_invalid", "msg": "JSON decode error", "loc": ("body", error.pos)}
        return Problem(said | {"ctx": {"error": error.msg}})
    except (ValueError, RecursionError) as error:
        raise Unreadable from error
    try:
        return model.__pydantic_validator__.validate_python(value)  # type: ignore[no-any-return]
    except ValidationError as error:
        return _first(error)


def _first(error: ValidationError) -> Problem:
    # Each of a million errors would be written out, for the sake of one.
    is_short = error.error_count() <= _SHOWN_ERRORS
    first = error.errors(include_url=False, include_context=False, include_input=is_short)[0]
    if first["loc"] == () and first["type"] == "model_type":
        return _no_object()
    given = first.get("input")
    given = given if isinstance(given, str | int | float | bool) else None
    said = {"type": first["type"], "msg": first["msg"], "loc": ("body", *first["loc"])}
    return Problem(said | {"input": given}, error.error_count())


def _twice(error: DuplicateKey) -> Problem:
    """Return what is wrong with a body that has a key twice, at whatever depth."""
    return Problem({"type": "duplicate_key", "loc": ("body", error.key), "msg": str(error)})


def _no_object() -> Problem:
    return Problem(
        {"type": "model_attributes_type", "loc": ("body",), "msg": "Input should be an object"}
    )
