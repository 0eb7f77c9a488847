"""JSON schemas (draft 2020-12) without remote references; `reads` bounds the work of a check."""

import json
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from assay_reward.answers.regex import compiled
from assay_shared.errors import InvalidInput
from assay_shared.text.strict_json import read_strict_json

MAX_LENGTH = 2**16
#: Work per character of JSON; unbounded for keywords with which a text can be read many times.
_READS = 16.0
_UNBOUNDED = {"$ref", "$dynamicRef", "pattern", "propertyNames"}
#: Another engine matches their expressions and does not know possessive quantifiers.
_REFUSED = {"patternProperties"}


def _pattern(_: Any, pattern: str, value: object, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and compiled(pattern, "schema").search(value) is None:
        yield ValidationError(f"{value!r:.80} does not match {pattern!r}")


def _unique_items(_: Any, unique: bool, value: object, __: Any) -> Iterator[ValidationError]:
    if not unique or not isinstance(value, list):
        return
    if len({json.dumps(_canonical(one), sort_keys=True) for one in value}) < len(value):
        yield ValidationError("items must be unique")


def _canonical(value: object) -> object:
    """Return the value with equal numbers written alike: 1.0 becomes 1."""
    if isinstance(value, list):
        return [_canonical(one) for one in value]
    if isinstance(value, dict):
        return {key: _canonical(one) for key, one in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Validator = validators.extend(
    Draft202012Validator, {"pattern": _pattern, "uniqueItems": _unique_items}
)


class Schema:
    """A schema, ready to use.

    Raises:
        InvalidInput: the text is not a schema, or it cannot be used here; names `field`.
    """

    def __init__(self, text: str, field: str) -> None:
        schema = json.loads(text)
        try:
            _Validator.check_schema(schema)
            self._validator = _Validator(schema, registry=Registry())
            samples: tuple[object, ...] = (None, {}, [], "")
            for sample in samples:
                self.fault(sample)
        except SchemaError as error:
            raise InvalidInput(f"not a JSON schema: {error.message}", field=field) from None
        except Unresolvable as error:
            raise InvalidInput(
                f"nothing is fetched, and {error.ref!r} is not in the schema", field=field
            ) from None
        except RecursionError:
            raise InvalidInput("the schema leads back to itself", field=field) from None
        keys = _keys(schema)
        #: A `Verifier.reads`: alternatives within alternatives read the same value many times.
        self.reads = math.inf if keys & _UNBOUNDED else _READS * (1 + text.count('Of"'))
        refused = _REFUSED & keys
        if refused:
            raise InvalidInput(f"{min(refused)} is not supported", field=field)

    def fault(self, value: object) -> str | None:
        """Return the first fault of a value, or None."""
        error = next(self._validator.iter_errors(value), None)
        return None if error is None else f"{error.json_path}: {error.message}"


@lru_cache(maxsize=256)
def schema_of(text: str, field: str) -> Schema:
    """Return the schema in the JSON `text`."""
    return Schema(text, field)


def _keys(value: object) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_keys, value))
    if isinstance(value, dict):
        return set(value).union(*map(_keys, value.values()))
    return set()


def parse_json(text: str) -> object:
    """Return the value of strict JSON, without duplicate keys.

    Raises:
        ValueError: the text is not strict JSON, too long, or nested too deeply.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"longer than {MAX_LENGTH} characters")
    return read_strict_json(text)
