"""An impossible value, or an unknown key, is refused with its name."""

import json
import re
from collections.abc import Iterator
from typing import Any

import helm_python
import pytest
import yaml

from tests.support.chart.rendering import CHART, at, merge, render

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


PART = SCHEMA["$defs"]["part"]["properties"]


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the target of a reference."""
    if "$ref" in schema:
        found: dict[str, Any] = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def sections(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object of the schema with its own keys, and its path in the values."""
    if "properties" in schema:
        yield path, schema
        for key, below in schema["properties"].items():
            yield from sections(resolved(below), f"{path}.{key}".lstrip("."))


#: `global` belongs to the chart above, which may have further keys there.
SECTIONS = {path: schema for path, schema in sections(SCHEMA) if path != "global"}
#: The parts, and what each of them takes without a line in values.yaml.
PARTS = [path for path, schema in SECTIONS.items() if "allOf" in schema]
UNWRITTEN = set(PART) - {"resources"}
SECTIONS = dict(sections({"properties": PART}, "judge")) | SECTIONS


def default_at(path: str) -> Any:
    value: Any = DEFAULTS
    for key in path.split(".") if path else ():
        value = value[key]
    return value


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in SECTIONS
        if path.partition(".")[2].partition(".")[0] not in PART
        and not path.endswith((".requests", ".limits"))
    ],
)
def test_the_schema_and_the_defaults_have_the_same_keys(path: str) -> None:
    of_part = UNWRITTEN if path in PARTS else set()
    expected = set(SECTIONS[path]["properties"]) | ({"resources"} if of_part else set())
    assert set(default_at(path)) - of_part == expected


def test_every_part_takes_the_same_and_values_yaml_says_what() -> None:
    head = (CHART / "values.yaml").read_text().partition("\nenabled:")[0].replace("\n# ", " ")
    for path in PARTS:
        (pattern,) = SECTIONS[path]["patternProperties"]
        assert pattern == f"^({'|'.join(PART)})$"
        assert re.search(rf" {path}( \(its engines\))?(,| and|\.)", head), path
    assert [key for key in UNWRITTEN if f" {key}: " not in head] == []


@pytest.mark.parametrize("path", SECTIONS)
def test_a_key_that_is_not_known_is_refused_everywhere(path: str) -> None:
    with pytest.raises(helm_python.HelmValuesError) as caught:
        render(at(f"{path}.surprise".lstrip("."), 1))
    pointer = "/" + path.replace(".", "/") if path else ""
    assert f"'{pointer}': additional properties 'surprise' not allowed" in str(caught.value)


WRONG: list[tuple[str, object]] = [
    ("image.pullPolicy", "Sometimes"),
    ("image.registry", "two words"),
    ("auth.existingSecret", ""),
    ("auth.enabled", "yes"),
    ("inference.accelerator", "amd"),
    ("inference.engine", "replicas"),
    ("inference.gpus", 0),
    ("inference.replicas", "two"),
    ("inference.model.folder", "../../etc"),
    ("inference.model.folder", "/abs"),
    ("inference.modelCache.size", "lots"),
    ("inference.modelCache.accessMode", "ReadOnlyMany"),
    ("inference.startupS", 1),
    ("inference.graceS", 5),
    ("inference.sharedMemory", "8 Gi"),
    ("inference.image.digest", "latest"),
    ("inference.image.name", ""),
    ("sandbox.isolation", "none"),
    ("sandbox.level", "fallback"),
    ("sandbox.slots", 0),
    ("sandbox.seccompProfile", "../../etc/passwd"),
    ("sandbox.runtimeClassName", "g Visor"),
    ("sandbox.replicas", -1),
    ("sandbox.autoscaling.cpuPercent", 400),
    ("judge.shared", "memory"),
    ("judge.egress.internet", "443"),
    ("judge.config", "chain: []"),
    ("reward.podDisruptionBudget.maxUnavailable", -1),
    ("reward.executor.config", "models: []"),
    ("reward.executor.egress.internet", "443"),
    ("trainer.kind", "Deployment"),
    ("trainer.weightTransfer", "nfs"),
    ("trainer.run.name", "Bad Name"),
    ("trainer.nodes", 0),
    ("trainer.nodes", "two"),
    ("trainer.nodes", 1.5),
    ("trainer.nodes", 65),
    ("trainer.gpus", 0),
    ("trainer.gpus", "all"),
    ("trainer.gpus", 17),
    ("trainer.joinS", 1),
    ("worker.concurrency", 0),
    ("worker.autoscaling.by", "memory"),
    ("redis.external.port", 70000),
    ("redis.existingSecret", "Upper"),
    ("monitoring.serviceMonitor.intervalS", "15s"),
    ("monitoring.namespace", ""),
    ("monitoring.traces.endpoint", "collector:4318"),
    ("networkPolicy.dns.address", "dns.example.com"),
    ("networkPolicy.dns.podLabel.key", ""),
    ("ingress.hosts.trainer", "https://a.example.com"),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_a_wrong_value_is_refused_with_its_name(path: str, value: object) -> None:
    with pytest.raises(helm_python.HelmValuesError, match="/" + path.replace(".", "/") + "'"):
        render(at(path, value))


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("redis.external.cidrs", ["10.0.0.1"], "/redis/external/cidrs/0"),
        ("image.pullSecrets", ["Not A Name"], "/image/pullSecrets/0"),
        ("worker.tolerations", [{"effect": "Never"}], "/worker/tolerations/0/effect"),
        ("networkPolicy.clients", [{}], "/networkPolicy/clients/0"),
        ("judge.egress.pods", [{"port": 80}], "/judge/egress/pods/0"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place(path: str, value: object, where: str) -> None:
    with pytest.raises(helm_python.HelmValuesError, match=where + "'"):
        render(at(path, value))


@pytest.mark.parametrize(
    "name", ["ASSAY_TOKEN", "ASSAY_SANDBOX_TOKEN", "OPENAI_API_KEY", "ASSAY_REDIS_URL", "lower"]
)
def test_a_secret_is_no_plain_variable(name: str) -> None:
    errors = (helm_python.HelmValuesError, helm_python.HelmRenderError)
    with pytest.raises(errors, match=name):
        render({"worker": {"environment": {name: "x"}}})


def test_a_setting_whose_name_speaks_of_tokens_is_one() -> None:
    render({"inference": {"environment": {"ASSAY_INFERENCE_PREFIX_TOKENS": 128}}})


RUN: dict[str, Any] = {"kind": "Job", "run": {"name": "first", "file": {"name": "a"}}}
APART: list[tuple[dict[str, Any], str]] = [
    (
        {"judge": {"autoscaling": {"enabled": True, "minReplicas": 9, "maxReplicas": 2}}},
        "judge.autoscaling.minReplicas is above judge.autoscaling.maxReplicas",
    ),
    ({"judge": {"shared": "process"}}, "judge.shared: process gives each replica separate limits"),
    (
        {"inference": {"replicas": 2}, "trainer": {"weightTransfer": "direct"}},
        "trainer.weightTransfer: direct reaches one engine",
    ),
    ({"trainer": {"queueName": "gpus"}}, "trainer.queueName: Kueue starts Jobs"),
    (
        {"trainer": {**RUN, "queueName": "gpus", "replicas": 0}},
        "trainer.replicas: 0 would not pause the run",
    ),
    (
        {"trainer": {**RUN, "queueName": "gpus", "replicas": 0, "nodes": 2}},
        "trainer.replicas: 0 would not pause the run",
    ),
    (
        {"worker": {"autoscaling": {"enabled": True, "by": "cpu"}}},
        "worker.autoscaling.minReplicas: 0 needs by: queue",
    ),
    (
        {"sandbox": {"autoscaling": {"enabled": True, "by": "waiting"}}},
        "sandbox.autoscaling.by: waiting needs monitoring.prometheus",
    ),
    (
        {"inference": {"autoscaling": {"enabled": True}}, "trainer": {"weightTransfer": "direct"}},
        "trainer.weightTransfer: direct reaches one engine",
    ),
    ({"trainer": {"kind": "Job"}}, "trainer.kind: Job needs trainer.run.file"),
    (
        {"trainer": {"kind": "Job", "run": {"file": {"name": "a"}, "pipeline": "name: a"}}},
        "trainer.run has both file and pipeline",
    ),
    (
        {"trainer": {"kind": "Job", "gpus": 2, "run": {"pipeline": "name: a"}}},
        "trainer.run.pipeline trains on one GPU",
    ),
    ({"trainer": {"nodes": 2}}, "trainer.nodes and trainer.gpus above 1 need trainer.kind: Job"),
    ({"trainer": {"gpus": 2}}, "trainer.nodes and trainer.gpus above 1 need trainer.kind: Job"),
    (
        {"trainer": {**RUN, "gpus": 2, "accelerator": "none"}},
        "trainer.gpus above 1 needs trainer.accelerator: nvidia",
    ),
    (
        {"trainer": {**RUN, "nodes": 2, "runs": {"accessMode": "ReadWriteOnce"}}},
        "trainer.runs.accessMode: every node of trainer.nodes writes its part",
    ),
    (
        {"inference": {"modelDownload": {"enabled": True}}},
        "inference.modelDownload needs folder, and repository",
    ),
    (
        {"inference": {"engine": "sglang", "gpus": 2}},
        "inference.gpus: sglang uses one GPU for each process",
    ),
    ({"ingress": {"enabled": True}}, "ingress.enabled needs one of ingress.hosts"),
    (
        {"ingress": {"enabled": True, "hosts": {"trainer": "a.b"}}, "auth": {"enabled": False}},
        "ingress.enabled needs auth.enabled",
    ),
    ({"auth": {"hosts": ["a.b"]}}, "auth.hosts counts with auth.enabled: false"),
    ({"redis": {"enabled": False}}, "redis.enabled: false needs redis.external.host"),
    (
        {"redis": {"enabled": False, "external": {"host": "redis.example.com"}}},
        "redis.external.cidrs: policies name addresses",
    ),
]


@pytest.mark.parametrize(("values", "message"), APART)
def test_values_that_do_not_go_together_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match=message):
        render(values)


@pytest.mark.parametrize(("nodes", "room"), [(1, 63), (64, 47)])
def test_a_run_of_any_name_has_a_name_that_fits(nodes: int, room: int) -> None:
    """A Job's name is a label of its pods; that of a JobSet gets numbers and a suffix."""
    trainer = RUN | {"nodes": nodes, "run": {"name": "r" * 32, "file": {"name": "a"}}}
    kind = "JobSet" if nodes > 1 else "Job"
    (run,) = render({"trainer": trainer}, name="n" * 53).of_kind(kind)
    assert len(run["metadata"]["name"]) <= room
    other = trainer | {"run": {"name": "r" * 31 + "s", "file": {"name": "a"}}}
    (second,) = render({"trainer": other}, name="n" * 53).of_kind(kind)
    assert run["metadata"]["name"] != second["metadata"]["name"]


def test_a_chart_above_may_hand_down_its_globals() -> None:
    render(merge({"global": {"region": "north"}}, {}))
