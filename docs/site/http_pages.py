"""Pages of the services' HTTP interfaces, written from their OpenAPI documents."""

import json
from collections.abc import Iterator
from typing import Any

from assay_inference.api.app import create_app as create_inference
from assay_inference.settings import InferenceSettings
from assay_judge.app import create_app as create_judge
from assay_judge.settings import JudgeSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_trainer.service.app import create_app as create_trainer
from assay_trainer.settings import TrainerSettings


def openapi_documents() -> dict[str, dict[str, Any]]:
    """Return the OpenAPI document of each service, by its name; no service is started."""
    sandbox = SandboxSettings(sandbox_minimum_isolation="fallback")
    return {
        "inference": create_inference(InferenceSettings()).openapi(),
        "sandbox": create_sandbox(sandbox).openapi(),
        "judge": create_judge(JudgeSettings()).openapi(),
        "reward": create_reward(RewardSettings()).openapi(),
        "trainer": create_trainer(TrainerSettings()).openapi(),
    }


def http_page(name: str, document: dict[str, Any]) -> str:
    """Return the page of one service: its routes, then the schemas of their bodies."""
    parts = [
        f"# HTTP: {name}\n",
        f"Routes of the {name} service and the schemas of their bodies. The same as a file:"
        f" {{download}}`{name}.json <openapi/{name}.json>`.\n",
        "## Routes\n",
    ]
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            parts += _route(f"{method.upper()} {path}", route)
    schemas = document.get("components", {}).get("schemas", {})
    parts.append("## Schemas\n")
    for title, schema in sorted(schemas.items()):
        parts += _schema(title, schema)
    return "\n".join(parts)


def _route(title: str, route: dict[str, Any]) -> Iterator[str]:
    yield f"### `{title}`\n"
    yield f"{_text(route.get('description') or route.get('summary', ''))}\n"
    if route.get("parameters"):
        yield "| parameter | place | type | |\n|---|---|---|---|"
        for each in route["parameters"]:
            needed = ", required" if each.get("required") else ""
            kind = _type(each.get("schema", {}))
            told = _cell(each.get("description", ""))
            yield f"| `{each['name']}` | {each['in']}{needed} | {kind} | {told} |"
        yield ""
    if body := _content(route.get("requestBody", {})):
        yield f"Body: {body}\n"
    yield "| status | body | |\n|---|---|---|"
    for status, answer in route.get("responses", {}).items():
        yield f"| {status} | {_content(answer)} | {_cell(answer.get('description', ''))} |"
    yield ""


def _content(part: dict[str, Any]) -> str:
    """Return the types of a request's or response's bodies."""
    bodies = part.get("content", {})
    found = [
        _type(body.get("schema", {})) + ("" if kind == "application/json" else f" as `{kind}`")
        for kind, body in bodies.items()
    ]
    return " or ".join(dict.fromkeys(found))


def _schema(title: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {title}\n"
    if schema.get("description"):
        yield f"{_text(schema['description'])}\n"
    if "properties" not in schema:
        yield f"{_type(schema)}\n"
        return
    needed = set(schema.get("required", []))
    yield "| field | type | default | |\n|---|---|---|---|"
    for name, field in schema["properties"].items():
        default = "required" if name in needed else _default(field)
        yield f"| `{name}` | {_type(field)} | {default} | {_cell(field.get('description', ''))} |"
    yield ""


def _default(field: dict[str, Any]) -> str:
    if "default" not in field:
        return ""
    shown = json.dumps(field["default"]).replace("|", "\\|")
    return f"`{shown}`" if len(shown) < 60 else "see the file"


def _type(schema: dict[str, Any]) -> str:
    """Return a schema as a few words, with links to the schemas that it names."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[key]))
    if "allOf" in schema:
        return " and ".join(_type(each) for each in schema["allOf"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    return _plain_type(schema)


def _plain_type(schema: dict[str, Any]) -> str:
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return f"{kind}{_bounds(schema)}"


def _bounds(schema: dict[str, Any]) -> str:
    """Return the limits of a number, or of a text's or list's length."""
    signs = {
        "minimum": "≥ ",
        "exclusiveMinimum": "> ",
        "maximum": "≤ ",
        "exclusiveMaximum": "< ",
        "minLength": "length ≥ ",
        "maxLength": "length ≤ ",
    }
    return "".join(f", {sign}{schema[key]}" for key, sign in signs.items() if key in schema)


def _cell(text: str) -> str:
    return _text(text).replace("\n", " ")


def _text(text: str) -> str:
    """Return a description as Markdown: signs of tables and of HTML as they are."""
    return text.replace("|", "\\|").replace("<", "\\<").replace("[", "\\[").strip()
