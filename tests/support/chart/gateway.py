"""The Gateway API's HTTPRoute: a strict schema of the chart's fields, and what its rules match.

After the field documentation of Gateway API 1.2 and newer. Other fields are refused: a spelling
mistake shows.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

Schema = dict[str, Any]

_NAME: Schema = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
_HOSTNAME: Schema = {
    "type": "string",
    "maxLength": 253,
    "pattern": r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
_DURATION: Schema = {"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$"}


def _closed(properties: Schema, *required: str) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_PARENT = _closed(
    {
        "group": {"const": "gateway.networking.k8s.io"},
        "kind": {"const": "Gateway"},
        "name": _NAME,
        "namespace": _NAME,
        "sectionName": _HOSTNAME,
    },
    "name",
)
_PATH = _closed(
    {
        "type": {"enum": ["Exact", "PathPrefix"]},
        "value": {"type": "string", "pattern": r"^/([\w.-]+(/[\w.-]+)*)?$"},
    },
    "type",
    "value",
)
_BACKEND = _closed(
    {
        "kind": {"const": "Service"},
        "name": _NAME,
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
    },
    "name",
    "port",
)
_RULE = _closed(
    {
        "matches": {
            "type": "array",
            "minItems": 1,
            "maxItems": 64,
            "items": _closed({"path": _PATH}, "path"),
        },
        "timeouts": _closed({"request": _DURATION}),
        "backendRefs": {"type": "array", "minItems": 1, "maxItems": 16, "items": _BACKEND},
    },
    "matches",
    "backendRefs",
)
HTTP_ROUTE_SPEC = _closed(
    {
        "parentRefs": {"type": "array", "minItems": 1, "maxItems": 32, "items": _PARENT},
        "hostnames": {"type": "array", "minItems": 1, "maxItems": 16, "items": _HOSTNAME},
        "rules": {"type": "array", "minItems": 1, "maxItems": 16, "items": _RULE},
    },
    "parentRefs",
    "hostnames",
    "rules",
)


class PublicRule(NamedTuple):
    """One path of a host that goes to a service."""

    host: str
    kind: str
    path: str
    service: str

    def matches(self, path: str) -> bool:
        """Return True if a request of `path` comes through, as Ingress and Gateway API define it.

        A prefix covers whole segments: `/v1` covers `/v1/runs` and not `/v10`.
        """
        if self.kind == "Exact":
            return path == self.path
        prefix = self.path.rstrip("/")
        return path == prefix or path.startswith(f"{prefix}/")


def public_rules(objects: list[dict[str, Any]]) -> Iterator[PublicRule]:
    """Yield the rules of every Ingress and HTTPRoute."""
    for item in objects:
        if item["kind"] == "Ingress":
            assert "defaultBackend" not in item["spec"]
            for rule in item["spec"]["rules"]:
                for path in rule["http"]["paths"]:
                    name = path["backend"]["service"]["name"]
                    yield PublicRule(rule["host"], path["pathType"], path["path"], name)
        if item["kind"] == "HTTPRoute":
            (host,) = item["spec"]["hostnames"]
            for rule in item["spec"]["rules"]:
                (backend,) = rule["backendRefs"]
                for match in rule["matches"]:
                    path = match["path"]
                    yield PublicRule(host, path["type"], path["value"], backend["name"])
