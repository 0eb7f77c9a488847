"""Values of a caller's, checked against the form that they must have."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from assay_shared.errors import InvalidInput

Form = TypeVar("Form", bound=BaseModel)
#: Python's words for what JSON calls otherwise.
_WORDS = (
    ("valid tuple", "list"),
    ("valid list", "list"),
    ("valid dictionary", "object"),
    ("valid frozenset", "list"),
)


def message_of(error: Mapping[str, Any]) -> str:
    """Return what pydantic says of a value, in the words of JSON."""
    message = str(error["msg"]).removeprefix("Value error, ")
    for word, plain in _WORDS:
        if message == f"Input should be a {word}":
            return f"Input should be {'an' if plain == 'object' else 'a'} {plain}"
    first, _, rest = message.partition(" ")
    return f"List {rest}" if first in ("Tuple", "Frozenset") else message


def validated(form: type[Form], value: object, field: str) -> Form:
    """`value` as `form`; `field` is where it stands in what the caller sent.

    Raises:
        InvalidInput: it is in another form; names the field within it.
    """
    try:
        return form.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in (field, *first["loc"]))
        raise InvalidInput(message_of(first), field=where) from None
