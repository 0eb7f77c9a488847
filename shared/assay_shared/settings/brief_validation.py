"""Validation that stops at the first wrong item of a list, and short lists of errors.

pydantic makes an error for each wrong item: for a body of two megabytes they would take gigabytes.
"""

import functools
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError, SchemaValidator, core_schema

_LISTS = frozenset({"list", "tuple", "set", "frozenset"})
#: Keys of a schema whose values are not schemas.
_OTHER = frozenset({"default", "expected", "metadata", "serialization"})
#: More errors than this are not listed; only unknown keys can reach this number.
_MOST_TOLD = 10_000
#: Fields named after the first.
_NUM_OTHERS = 3


@functools.cache
def brief_validator(model: type[BaseModel], *, strict: bool = False) -> SchemaValidator:
    """Return a validator of a model; it stops reading a list at the first wrong item.

    A `strict` validator takes no truth value or text for an integer, no number or text for a truth
    value, and no truth value for a number.
    """
    schema = _brief(model.__pydantic_core_schema__, strict)
    return SchemaValidator(schema, _use_prebuilt=False)


def _brief(schema: Any, strict: bool) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(_brief(one, strict) for one in schema)
    if not isinstance(schema, dict):
        return schema
    copy = {key: one if key in _OTHER else _brief(one, strict) for key, one in schema.items()}
    fields = schema.get("fields")
    if isinstance(fields, dict):  # its keys are a model's own names
        copy["fields"] = {name: _brief(field, strict) for name, field in fields.items()}
    kind = schema.get("type")
    if not isinstance(kind, str):
        return copy
    if kind in _LISTS:
        copy["fail_fast"] = True
    if strict and kind in ("int", "bool"):
        copy["strict"] = True
    if strict and kind == "float":
        # Not pydantic's own strictness: YAML reads 1e-4 as a text.
        return core_schema.no_info_before_validator_function(_no_truth_value, copy)
    return copy


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("float_type", "Input should be a valid number")
    return value


def first_errors(
    error: ValidationError, *, with_input: bool = True, most: int = 1 + _NUM_OTHERS
) -> list[dict[str, Any]]:
    """Return at most `most` errors, each of a different field.

    More than `_MOST_TOLD` errors are returned as a single error with their number.
    """
    if error.error_count() > _MOST_TOLD:
        message = f"more than {_MOST_TOLD} things are wrong"
        return [{"type": "too_many", "loc": (), "msg": message, "input": {}}]
    told = error.errors(include_url=False, include_context=False, include_input=with_input)
    by_field = {str(one["loc"]): one for one in reversed(told)}
    first = [dict(one) for one in reversed(by_field.values())]
    return first[:most]
