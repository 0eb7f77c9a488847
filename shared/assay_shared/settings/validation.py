"""Checks a caller's values against a model, with messages in the words of JSON."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from assay_shared.errors import InvalidInput
from assay_shared.settings.brief_validation import brief_validator, first_errors

Form = TypeVar("Form", bound=BaseModel)
#: Messages with Python's words for JSON's lists and objects.
_LIST = re.compile(r"Input should be a valid (tuple|list|set|frozenset|array)\Z")
_OBJECT = re.compile(r"Input should be a valid (dictionary|object)( or .*)?\Z")
_LENGTH = re.compile(r"\A(Tuple|Set|Frozenset) (?=should )")


def message_of(error: Mapping[str, Any]) -> str:
    """Return pydantic's message of an error, in the words of JSON."""
    message = str(error["msg"]).removeprefix("Value error, ")
    if _LIST.match(message):
        return "Input should be a list"
    if _OBJECT.match(message):
        return "Input should be an object"
    return _LENGTH.sub("List ", message)


def message_in_row(error: Mapping[str, Any]) -> str:
    """Return the message about a row of a file, with the name of a field that is missing.

    In front of the place in the file, a field such as `dataset` reads as a word about the place.
    """
    name = ".".join(map(str, error["loc"]))
    lacks = f": the row has no {name!r}" if error["type"] == "missing" and name else ""
    return f"{message_of(error)}{lacks}"


def validated(form: type[Form], value: object, field: str) -> Form:
    """Return `value` as `form`; `field` is its place in the caller's request.

    Raises:
        InvalidInput: the value does not match `form`; names the field within it.
    """
    try:
        return brief_validator(form).validate_python(value)  # type: ignore[no-any-return]
    except ValidationError as error:
        first = first_errors(error)[0]
        where = ".".join(str(part) for part in (field, *first["loc"]))
        raise InvalidInput(message_of(first), field=where) from None
