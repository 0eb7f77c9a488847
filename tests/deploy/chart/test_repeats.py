"""Nothing is in a list twice: Helm 4 does not apply such an object."""

import json
import re
from typing import Any

import helm_python
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.deploy.chart.test_validity import BESIDE, CHOICES, COMBINED, DEFAULTS, switches
from tests.support.chart.list_keys import repeated_keys
from tests.support.chart.parts import PARTS, every_pod, every_rendering
from tests.support.chart.rendering import (
    CHART,
    EXAMPLES,
    Manifest,
    Rendered,
    at,
    example,
    merge,
    render,
)

#: Values with which the chart sets every variable that it can set.
MOST: dict[str, Any] = {
    "auth": {"clients": True},
    "inference": {
        "model": {"folder": "model"},
        "arguments": "--a 1",
        "modelDownload": {"tokenSecret": {"name": "hub"}},
    },
    "judge": {"config": {"chain": [{"kind": "reference"}]}},
    "reward": {"rubrics": {"mine": {"description": "x"}}},
    "trainer": {"datasets": {"existingClaim": "data"}},
    "monitoring": {"traces": {"endpoint": "http://collector.monitoring:4318"}},
}
#: The part whose settings reach a pod.
PART_OF = {
    "engine": "inference",
    "router": "inference.router",
    "download": "inference.modelDownload",
    "seccomp": "sandbox.seccompInstaller",
    **{name: name for name in ("sandbox", "judge", "reward", "worker", "redis")},
}


def part_of(pod: str) -> str:
    return PART_OF.get(pod) or ("trainer" if pod.startswith("trainer") else "tests")


def variables(pod: Manifest) -> set[str]:
    return {item["name"] for item in pod["spec"]["containers"][0].get("env", ())}


#: The same with weights that are sent, in place of a shared folder.
UPLOAD = merge(MOST, at("trainer.weightTransfer", "upload"))
#: Every variable of the chart's, with the part that it is in.
SET = {
    (part_of(name), item): values
    for values in (UPLOAD, MOST)
    for name, pod in every_pod(values).items()
    for item in variables(pod)
}


def secret(name: str) -> dict[str, str]:
    return {"name": name, "secret": "ours", "key": "key"}


#: Variables that no value changes: of libraries, folders of the image, the pod's own address.
FIXED = {
    *("HOME", "USER", "DO_NOT_TRACK", "ADDRESSES", "URLS", "OUTSIDE", "REACHABLE"),
    *("ASSAY_RUNS", "ASSAY_INFERENCE_UPLOAD_FOLDER", "ASSAY_WEIGHT_TRANSFER_HOST"),
}


def table(name: str) -> dict[str, str]:
    """Return a table of the chart's templates."""
    text = (CHART / "templates/shared/_repeats.tpl").read_text()
    found: dict[str, str] = yaml.safe_load(
        text.partition(f'"assay.{name}" -}}}}')[2].partition("{{- end")[0]
    )
    return found


def test_each_variable_of_the_charts_has_a_value_to_set_instead() -> None:
    values = table("variableValues")
    assert {name for _, name in SET} - FIXED <= values.keys()
    for path in values.values():
        value: Any = DEFAULTS
        for key in re.split(r"[: ]", path)[0].split("."):
            value = value[key] if key != "graceS" else value


#: A variable of each part; of trainers and tests, one of each kind of pod.
SOME = [
    *sorted(dict(sorted(SET)).items()),
    *(("trainer", "RUN_FOLDER"), ("tests", "ADDRESSES"), ("worker", "ASSAY_REDIS_PASSWORD")),
]


@pytest.mark.parametrize(("part", "name"), SOME)
def test_a_variable_of_the_charts_is_refused_with_what_to_set(part: str, name: str) -> None:
    values = merge(SET[part, name], at(f"{part}.secretEnvironment", [secret(name)]))
    instead = table("variableValues").get(name)
    hint = f"set {instead} instead" if instead else "remove it, since it is the same in every"
    refusal = f"{part}.secretEnvironment: the chart sets {name} itself; {hint}"
    with pytest.raises(helm_python.HelmRenderError, match=re.escape(refusal)):
        every_pod(values)


def test_a_variable_has_one_source() -> None:
    both = {"environment": {"OURS": 1}, "secretEnvironment": [secret("OURS")]}
    with pytest.raises(helm_python.HelmRenderError, match=r"judge\.environment and .* set OURS"):
        render({"judge": both})
    twice = {"secretEnvironment": [secret("OURS"), secret("OURS")]}
    with pytest.raises(helm_python.HelmRenderError, match=r"secretEnvironment sets OURS twice"):
        render({"judge": twice})
    plain = at("worker.environment", {"ASSAY_INFERENCE_URL": "http://elsewhere:8001"})
    with pytest.raises(helm_python.HelmRenderError, match=r"worker\.environment: the chart sets"):
        render(plain)
    free = merge(plain, at("inference.enabled", False))
    pod = dict(render(free).pods())["assay-worker"]
    assert {"name": "ASSAY_INFERENCE_URL", "value": "http://elsewhere:8001"} in (
        pod["spec"]["containers"][0]["env"]
    )


TMP = {"name": "tmp", "emptyDir": {}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"extraVolumes": [TMP]}, "judge.extraVolumes: the pod has a volume tmp already"),
        (
            {"extraVolumeMounts": [{"name": "tmp", "mountPath": "/tmp/"}]},
            "judge.extraVolumeMounts: /tmp/ is mounted already",
        ),
        (
            {"extraVolumeMounts": [{"name": "none", "mountPath": "/none"}]},
            "judge.extraVolumeMounts: the pod has no volume none; add it to judge.extraVolumes",
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": skew, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
                    for skew in (1, 2)
                ]
            },
            "judge.topologySpreadConstraints has two for rack, DoNotSchedule",
        ),
    ],
)
def test_other_repeats_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match=message):
        render({"judge": values})


def test_the_volume_of_a_claim_template_is_one_of_the_pods() -> None:
    render(at("redis.extraVolumeMounts", [{"name": "data", "mountPath": "/copy"}]))
    with pytest.raises(helm_python.HelmRenderError, match="a volume data already"):
        render(at("redis.extraVolumes", [{"name": "data", "emptyDir": {}}]))


def repeats(rendered: Rendered) -> list[str]:
    return [found for item in rendered.objects for found in repeated_keys(item)]


@pytest.mark.parametrize("names", [*((name,) for name in EXAMPLES), COMBINED], ids="+".join)
def test_no_example_repeats_anything(names: tuple[str, ...]) -> None:
    assert repeats(render(example(*names))) == []


def test_repeats_are_found() -> None:
    found = render().one("judge/deployment.yaml")
    spec = found["spec"]["template"]["spec"]
    box = spec["containers"][0]
    for items in (box["env"], box["ports"], box["volumeMounts"], spec["volumes"]):
        items.append(dict(items[0]))
    assert [text.partition(": ")[0].rpartition(".")[2] for text in repeated_keys(found)] == (
        ["ports", "env", "volumeMounts", "volumes"]
    )


FRESH = ["OURS", "HTTPS_PROXY", "NO_PROXY"]
NAMES = st.sampled_from(sorted({name for _, name in SET}) + FRESH)
VOLUMES = st.sampled_from(["tmp", "data", "config", "models", "scratch", "ours", "more"])
PATHS = st.sampled_from(["/tmp", "/dev/shm", "/data", "/etc/assay", "/ours", "/ours/"])
TOPOLOGIES = st.sampled_from(["rack", "kubernetes.io/hostname"])
PART = st.fixed_dictionaries(
    {},
    optional={
        "environment": st.dictionaries(st.sampled_from(FRESH), st.integers(), max_size=2),
        "secretEnvironment": st.lists(NAMES.map(secret), max_size=2),
        "extraVolumes": st.lists(
            VOLUMES.map(lambda name: {"name": name, "emptyDir": {}}), max_size=2
        ),
        "extraVolumeMounts": st.lists(
            st.builds(lambda name, path: {"name": name, "mountPath": path}, VOLUMES, PATHS),
            max_size=2,
        ),
        "topologySpreadConstraints": st.lists(
            st.builds(
                lambda key: {
                    "maxSkew": 1,
                    "topologyKey": key,
                    "whenUnsatisfiable": "DoNotSchedule",
                },
                TOPOLOGIES,
            ),
            max_size=2,
        ),
    },
)
#: What the chart offers, by path: each switch turned over, and each choice of the other tests.
OFFERED = [*switches(DEFAULTS), *CHOICES, ("image.pullSecrets", ["a", "b", "a"])]


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    offered=st.lists(st.sampled_from(OFFERED), max_size=4),
    parts=st.dictionaries(st.sampled_from(PARTS), PART, max_size=3),
)
def test_what_is_rendered_repeats_nothing(
    offered: list[tuple[str, Any]], parts: dict[str, dict[str, Any]]
) -> None:
    base: dict[str, Any] = {}
    for path, value in offered:
        base = merge(base, merge(BESIDE.get(path, {}), at(path, value)))
    values = base
    for part, own in parts.items():
        values = merge(values, at(part, own))
    refusal = ""
    try:
        assert repeats(render(values)) == []
    except helm_python.HelmError as error:
        refusal = str(error)
    named = [name for name in sorted(parts, key=len)[::-1] if f"{name}." in refusal]
    drawn = set(re.findall(r'"([^"]+)"', json.dumps([parts[name] for name in named[:1]])))
    if refusal and not any(f" {entry}" in refusal for entry in drawn):
        # Then the choices do not go together, whatever the parts have.
        with pytest.raises(helm_python.HelmError):
            render(base)


def test_the_table_of_templates_with_pods_has_them_all() -> None:
    listed = table("podTemplates")
    found = {
        template
        for rendered in every_rendering({})
        for template, objects in rendered.by_template.items()
        for item in objects
        if list(Rendered({template: [item]}, "").pods())
    }
    assert found == set(listed)
    assert set(listed.values()) == set(PARTS)
