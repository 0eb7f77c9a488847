"""Entries of lists that have the same key, by Kubernetes' own definitions.

Helm 4 and server-side apply merge such lists by their keys, and refuse an object with a repeated
one: a variable's name, a volume's name, a mount's path, a port with its protocol.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from kubernetes_validate.utils import schema_contents

from tests.support.chart.crds import CRD_SCHEMAS, jobs_of
from tests.support.chart.kubernetes_schemas import NEWEST

Schema = dict[str, Any]


@functools.cache
def _definitions() -> dict[str, Schema]:
    found: dict[str, Schema] = schema_contents(
        f"kubernetes-json-schema/v{NEWEST}-local-strict/_definitions.json", NEWEST
    )["$defs"]
    return found


@functools.cache
def _definition_of(api_version: str, kind: str) -> Schema:
    group, _, version = api_version.rpartition("/")
    wanted = {"group": group, "version": version, "kind": kind}
    (found,) = (
        schema
        for schema in _definitions().values()
        if schema.get("x-kubernetes-group-version-kind") == [wanted]
    )
    return found


def repeated_keys(item: dict[str, Any]) -> list[str]:
    """Return the place and key of each repeated entry of an object's lists."""
    if (item["apiVersion"], item["kind"]) in CRD_SCHEMAS:
        return [found for job in jobs_of(item) for found in repeated_keys(job)]
    return list(_repeats(_definition_of(item["apiVersion"], item["kind"]), item, item["kind"]))


def _repeats(schema: Schema, value: object, path: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = _definitions()[schema["$ref"].rpartition("/")[2]]
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _repeats(schema.get("properties", {}).get(key, {}), below, f"{path}.{key}")
    elif isinstance(value, list):
        keys = schema.get("x-kubernetes-list-map-keys", ())
        # A port without a protocol is one of TCP.
        counts = Counter(
            tuple(entry.get(key, "TCP" if key == "protocol" else None) for key in keys)
            for entry in (value if keys else ())
        )
        yield from (f"{path}: {key}" for key, count in counts.items() if count > 1)
        for entry in value:
            yield from _repeats(schema.get("items", {}), entry, path)
