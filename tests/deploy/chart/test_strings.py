"""A string stays a string in every object, also if YAML takes it for a number or a truth value."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.deploy.chart.test_schema import PART, SCHEMA, SECTIONS, resolved
from tests.support.chart.parts import EVERYTHING, PARTS, RUN
from tests.support.chart.rendering import VERSIONS, Values, at, check, merge, render

#: Values that exclude another one here: a run takes one file, a name outside leads to one service,
#: all of redis.external is for a release without a Redis, and only an account that is made has
#: annotations.
LEFT_OUT = {
    "trainer.run.pipeline",
    *("ingress.hosts.trainer", "ingress.hosts.inference"),
    "judge.serviceAccount.annotations",
}
ELSEWHERE = {"enabled": False, "external": {"url": "http://a.b:9", "cidrs": ["10.0.0.1/32"]}}
AUTOSCALED = {"autoscaling": {"enabled": True}}
MONITORED: dict[str, Any] = {
    "prometheus": "http://prometheus.monitoring:9090",
    "traces": {"endpoint": "http://collector.monitoring:4318"},
    **{name: {"enabled": True} for name in ("serviceMonitor", "rules", "dashboards")},
}
OWN_REDIS = {
    "enabled": False,
    "external": {"host": "1234", "tls": True, "cidrs": ["10.0.0.1/32"], "usernameKey": "user"},
}
OWN_DOWNLOAD = {"enabled": True, "command": ["fetch"]}
SERVED = {"modelDownload": OWN_DOWNLOAD, "model": {"folder": "model"}}
#: Installations that between them render every template.
INSTALLATIONS: dict[str, dict[str, Any]] = {
    "autoscaled": merge(EVERYTHING, {"inference": SERVED})
    | {"worker": AUTOSCALED, "redis": OWN_REDIS, "monitoring": MONITORED, "oneNode": True}
    | {"judge": AUTOSCALED, "reward": AUTOSCALED, "auth": {"clients": True}}
    | {"trainer": {"queueName": ""}},
    "a run and an Ingress": {"trainer": RUN, "ingress": {"enabled": True, "preset": "none"}},
    "nodes and a route": {
        "trainer": RUN | {"nodes": 2},
        "ingress": {"enabled": True, "kind": "HTTPRoute"},
        "sandbox": {"autoscaling": {"enabled": True, "by": "waiting"}},
        "monitoring": MONITORED,
        "inference": {"modelCache": {"kind": "pod"}, "modelDownload": OWN_DOWNLOAD},
    },
    "parts elsewhere": {
        "inference": ELSEWHERE,
        "sandbox": ELSEWHERE,
        "trainer": {"weightTransfer": "upload", "queueName": ""},
    },
}


def leaves() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and schema of each value, those that every part takes included."""
    for path, section in SECTIONS.items():
        own = {} if path.endswith((".requests", ".limits")) else section["properties"]
        for key, below in own.items():
            yield f"{path}.{key}".lstrip("."), resolved(below)
    for part in PARTS:
        for key, below in PART.items():
            yield f"{part}.{key}", resolved(below)


def admits(schema: dict[str, Any], value: object) -> bool:
    whole = {"$defs": SCHEMA["$defs"], **schema}
    return bool(jsonschema.Draft202012Validator(whole).is_valid(value))


def strings(text: str) -> dict[str, Any]:
    """Return values with the text wherever the schema takes it, in a map or a list too."""
    values: dict[str, Any] = {
        "fullnameOverride": "yes",
        "image": {"pullSecrets": [text]},
        "inference": {"modelDownload": {"command": [text]}},
        "judge": {"secretEnvironment": [{"name": "A", "secret": text, "key": text}]},
    }
    for part in PARTS:
        values = merge(values, at(f"{part}.serviceAccount", {"create": False, "name": text}))
    for path, schema in leaves():
        is_left_out = path in LEFT_OUT or path.startswith("redis.external.")
        if not is_left_out and "enum" not in schema:
            if admits(schema, text):
                values = merge(values, at(path, text))
            elif admits(schema, {"a/b": text}) and not admits(schema, {"a/b": {}}):
                values = merge(values, at(path, {"a/b": text}))
    return values


@pytest.mark.parametrize("name", INSTALLATIONS)
@pytest.mark.parametrize("text", ["1234", "yes"])
def test_a_string_that_looks_like_another_value_stays_one(name: str, text: str) -> None:
    values: Values = merge(strings(text), INSTALLATIONS[name])
    check(render(values, name="2024", namespace="1234"), VERSIONS[-1:])


def test_strings_are_tried_in_most_places() -> None:
    assert len([path for path, schema in leaves() if admits(schema, "yes")]) > 90
