"""The strict schemas of `kubernetes-validate`, each read once: it reads megabytes for each."""

import functools
import re
from typing import Any

import jsonschema
from kubernetes_validate.utils import all_versions, schema_contents
from referencing import Registry, Resource

NEWEST = all_versions()[-1]


@functools.cache
def _definitions(version: str) -> "Registry[Any]":
    text = schema_contents(f"{_folder(version)}/_definitions.json", version)
    resource: Resource[Any] = Resource.from_contents(text)
    registry: Registry[Any] = Registry()
    return (resource @ registry).crawl()


@functools.cache
def _validator(api_version: str, kind: str, version: str) -> jsonschema.Draft202012Validator:
    # networking.k8s.io/v1 is networking-v1
    short = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    schema = schema_contents(f"{_folder(version)}/{kind.lower()}-{short}.json", version)
    registry = Resource.from_contents(schema) @ _definitions(version)
    return jsonschema.Draft202012Validator(schema, registry=registry)


def _folder(version: str) -> str:
    return f"kubernetes-json-schema/v{version}-local-strict"


def check_object(item: dict[str, Any], version: str) -> str | None:
    """Return the error of an object; None if it is right.

    Raises:
        FileNotFoundError: Kubernetes has no such kind.
    """
    for error in _validator(item["apiVersion"], item["kind"], version).iter_errors(item):
        return f"{error.json_path}: {error.message}"
    return None
