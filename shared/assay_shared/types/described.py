"""Models with field descriptions in JSON schemas and OpenAPI pages, taken from `#:` comments."""

import ast
import inspect
import sys
from functools import lru_cache

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

_MARK = "#:"


class Described:
    """A base of models: the schema describes each field in the words of its `#:` comment."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema, with a description for each commented field."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in field_comments(cls).items():
            if name in properties:
                properties[name].setdefault("description", text)
        return schema


def field_comments(cls: type) -> dict[str, str]:
    """Return the text of the `#:` lines above each field of a class and of its bases, by field."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        if issubclass(one, Described):
            found |= _comments_of(one.__module__).get(one.__name__, {})
    return found


@lru_cache
def _comments_of(module: str) -> dict[str, dict[str, str]]:
    """Return field comments by class of a module; empty if its source is missing."""
    try:
        source = inspect.getsource(sys.modules[module])
    except OSError:
        return {}
    lines = source.splitlines()
    return {
        node.name: {
            field.target.id: text
            for field in node.body
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if (text := _above(lines, field.lineno))
        }
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    }


def _above(lines: list[str], number: int) -> str:
    """Return the comment above line `number` (from 1), joined to a single line of text."""
    found: list[str] = []
    at = number - 2
    while at >= 0 and lines[at].strip().startswith(_MARK):
        found.append(lines[at].strip().removeprefix(_MARK).strip())
        at -= 1
    return " ".join(reversed(found))
