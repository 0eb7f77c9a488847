"""Reads a request's body as the model of its route, and describes errors in it."""

import json
import re
from dataclasses import dataclass
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from assay_shared.settings.brief_validation import brief_validator, first_errors
from assay_shared.text.half_characters import find_half_character
from assay_shared.text.strict_json import DuplicateKey, check_keys

#: Errors of a longer body do not repeat the wrong value.
_SHOWN_BYTES = 64 * 2**10
#: JSON of at most this size needs no count of its values before parsing.
_SMALL_BYTES = 2**20
#: Limits on the values and keys of a body; each takes up to a hundred bytes once parsed.
MAX_VALUES = 1_000_000
MAX_KEYS = 250_000
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


@dataclass(frozen=True)
class BodyProblem:
    """The first error of a body, and the number of errors."""

    error: dict[str, Any]
    num_errors: int = 1
    #: Some of the other wrong fields.
    others: tuple[str, ...] = ()


class InvalidBody(RequestValidationError):
    """A body that does not match its route's model; holds only the first of its errors."""

    def __init__(self, problem: BodyProblem) -> None:
        super().__init__([problem.error])
        self.num_errors = problem.num_errors
        self.others = problem.others


class UnreadableBody(Exception):
    """A body that is not JSON, or nests too deeply to be read."""


class TooManyValues(UnreadableBody):
    """A body with more values than any route accepts."""


def check_presence(has_body: bool, content_type: str) -> BodyProblem | None:
    """Return a problem if the body is missing or its content type is not JSON, else None."""
    if not has_body:
        return BodyProblem({"type": "missing", "loc": ("body",), "msg": "Field required"})
    kind = content_type.partition(";")[0].strip().lower()
    main, _, sub = kind.partition("/")
    if main == "application" and (sub == "json" or sub.endswith("+json")):
        return None
    return _no_object()


def read_body(
    model: type[BaseModel], body: bytes, *, takes_half_characters: bool = True
) -> BaseModel | BodyProblem:
    """Return a body as `model`, or its problem.

    In a list, only the first wrong item counts as an error. Lone surrogates in a text are an error
    unless `takes_half_characters` is set.

    Raises:
        UnreadableBody: the body is not text, or is nested hundreds of levels deep.
        TooManyValues: the body has too many values.
    """
    check_size(body)
    try:
        found: BaseModel = brief_validator(model).validate_json(body)
        check_keys(body)
        return found
    except DuplicateKey as error:
        return _twice(error)
    except ValidationError as error:
        problem = _first(error, len(body))
    except ValueError as error:
        raise UnreadableBody from error
    if problem.error["type"] != "json_invalid":
        return problem
    return _read_slowly(model, body, takes_half_characters)


def check_size(body: bytes) -> None:
    """Raise TooManyValues if a body has too many; commas and colons in texts do not count.

    Takes less than a second for 32 MiB, because counting stops at the limit.
    """
    if len(body) <= _SMALL_BYTES:
        return
    if body.count(b",") <= MAX_VALUES and body.count(b":") <= MAX_KEYS:
        return
    at = num_values = num_keys = 0
    for text in _TEXT.finditer(body):
        num_values += body.count(b",", at, text.start())
        num_keys += body.count(b":", at, text.start())
        at = text.end()
        if num_values > MAX_VALUES or num_keys > MAX_KEYS:
            break
    num_values += body.count(b",", at)
    num_keys += body.count(b":", at)
    if num_values > MAX_VALUES or num_keys > MAX_KEYS:
        raise TooManyValues


def _read_slowly(
    model: type[BaseModel], body: bytes, takes_half_characters: bool
) -> BaseModel | BodyProblem:
    """Read with Python's parser: it accepts lone surrogates, UTF-16 and deeper nesting too."""
    try:
        check_keys(body)
        value = json.loads(body)
        half = None if takes_half_characters else find_half_character(value)
    except DuplicateKey as error:
        return _twice(error)
    except json.JSONDecodeError as error:
        said = {"type": "json_invalid", "msg": "JSON decode error", "loc": ("body", error.pos)}
        return BodyProblem(said | {"ctx": {"error": error.msg}})
    except (ValueError, RecursionError) as error:
        raise UnreadableBody from error
    if half is not None:
        message = "must be Unicode text without lone surrogates"
        return BodyProblem({"type": "string_unicode", "loc": ("body", *half), "msg": message})
    try:
        return brief_validator(model).validate_python(value)  # type: ignore[no-any-return]
    except ValidationError as error:
        return _first(error, len(body))


def _first(error: ValidationError, num_bytes: int) -> BodyProblem:
    first, *others = first_errors(error, with_input=num_bytes <= _SHOWN_BYTES)
    if first["loc"] == () and first["type"] == "model_type":
        return _no_object()
    given = first.get("input")
    given = given if isinstance(given, str | int | float | bool) else None
    said = {"type": first["type"], "msg": first["msg"], "loc": ("body", *first["loc"])}
    names = tuple(".".join(map(str, one["loc"])) for one in others)
    return BodyProblem(said | {"input": given}, error.error_count(), names)


def _twice(error: DuplicateKey) -> BodyProblem:
    """Return the problem of a body with a duplicate key, at any depth."""
    return BodyProblem({"type": "duplicate_key", "loc": ("body", error.key), "msg": str(error)})


def _no_object() -> BodyProblem:
    return BodyProblem(
        {"type": "model_attributes_type", "loc": ("body",), "msg": "Input should be an object"}
    )
