"""Values of a caller's, checked against the form that they must have."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from assay_shared.errors import InvalidInput

Form = TypeVar("Form", bound=BaseModel)


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
        raise InvalidInput(first["msg"].removeprefix("Value error, "), field=where) from None
