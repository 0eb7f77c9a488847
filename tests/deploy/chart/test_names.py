"""Names: unlike each other, short enough, and those of a chart above."""

import shutil
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from tests.support.chart.parts import EVERYTHING, TRAINERS, every_pod, every_rendering
from tests.support.chart.rendering import (
    CHART,
    NAMESPACE,
    Manifest,
    Rendered,
    at,
    check,
    merge,
    render,
)

LONG_RUN = {"trainer": {"run": {"name": "qwen2-5-7b-instruct-gsm8k-grpo-1"}}}
ALL: dict[str, Any] = {
    "monitoring": {
        "serviceMonitor": {"enabled": True},
        "rules": {"enabled": True},
        "dashboards": {"enabled": True},
    },
    "worker": {"autoscaling": {"enabled": True}},
    "judge": {"config": {"chain": []}},
    "reward": {"rubrics": {"mine": {}}},
    "ingress": {"enabled": True, "hosts": {"reward": "reward.example.com"}},
}


def names(rendered: Rendered) -> set[tuple[str, str]]:
    return {(item["kind"], item["metadata"]["name"]) for item in rendered.objects}


def derived(item: Manifest) -> list[str]:
    """Return the names that Kubernetes and JobSet make of an object's, which become labels."""
    name = item["metadata"]["name"]
    if item["kind"] == "StatefulSet":
        return [f"{name}-0", f"{name}-0123456789"]  # pod, and revision
    if item["kind"] == "JobSet":
        return [f"{name}-node-0", f"{name}-node-0-63-abcde"]
    if item["kind"] in ("Deployment", "DaemonSet"):
        return [f"{name}-0123456789"]  # of its ReplicaSet
    return [name]


@pytest.mark.parametrize("release", ["rl-platform-team-experiments-production-qwen-grpo-see", "r"])
def test_every_name_fits_in_a_label(release: str) -> None:
    assert len(release) in (1, 53)
    for rendered in every_rendering(merge(ALL, LONG_RUN), name=release):
        check(rendered, ("1.37.0",))
        for item in rendered.objects:
            assert all(len(name) <= 63 for name in derived(item)), item["metadata"]["name"]


@pytest.mark.parametrize(
    "releases",
    [
        ("rl-qwen25-7b-instruct-gsm8k-grpo-seed-1", "rl-qwen25-7b-instruct-gsm8k-grpo-seed-2"),
        ("eval", "eval-assay"),
        ("assay", "assay-assay"),
        ("a" * 53, "a" * 52 + "b"),
    ],
)
def test_two_releases_share_no_name(releases: tuple[str, str]) -> None:
    one, other = (
        render(merge(merge(EVERYTHING, TRAINERS["Job"]), merge(ALL, LONG_RUN)), name=name)
        for name in releases
    )
    assert names(one) & names(other) == set()
    assert len(names(one)) == len(one.objects)


def test_two_runs_with_long_names_are_two() -> None:
    release = "rl-qwen25-7b-instruct-gsm8k-grpo-seed-1"
    found = {
        item["metadata"]["name"]
        for end in ("1", "2")
        for rendered in every_rendering(
            at("trainer.run.name", f"qwen2-5-7b-instruct-gsm8k-grpo-{end}"), name=release
        )
        for item in (*rendered.of_kind("Job"), *rendered.of_kind("JobSet"))
        if "-download-" not in item["metadata"]["name"]
    }
    assert len(found) == 4


def test_a_run_that_meets_by_name_uses_the_same_short_name() -> None:
    rendered = list(every_rendering(LONG_RUN, name="a" * 53))[-1]
    (found,) = rendered.of_kind("JobSet")
    name = found["metadata"]["name"]
    assert found["spec"]["network"]["subdomain"] == name
    pod = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert f"{name}-node-0-0.{name}:29500" in pod["spec"]["containers"][0]["command"][-1]


@pytest.mark.parametrize("release", ["7b", "a.b"])
def test_a_release_that_no_service_can_be_named_after_is_refused(release: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match="set fullnameOverride"):
        render({}, name=release)
    rendered = render(at("fullnameOverride", "ours"), name=release)
    check(rendered, ("1.37.0",))
    assert all(item["metadata"]["name"].startswith("ours-") for item in rendered.objects)


def test_a_name_may_be_overridden() -> None:
    rendered = render(at("nameOverride", "scores"), name="eval")
    check(rendered, ("1.37.0",))
    for item in rendered.objects:
        assert item["metadata"]["name"].startswith("eval-scores-")
        assert item["metadata"]["labels"]["app.kubernetes.io/name"] == "scores"


def parent(folder: Path, *dependencies: dict[str, str]) -> Path:
    """Make a chart that has this one below it, once for each alias."""
    above = folder / "above"
    shutil.copytree(CHART, above / "charts" / "assay")
    listed = [{"name": "assay", "version": "0.1.0", **more} for more in dependencies]
    (above / "Chart.yaml").write_text(
        yaml.safe_dump(
            {"apiVersion": "v2", "name": "above", "version": "1.0.0", "dependencies": listed}
        )
    )
    return above


def rendered_above(folder: Path, values: dict[str, Any], name: str = "prod") -> list[Manifest]:
    files = helm_python.Chart.load(folder).render(values, name=name, namespace=NAMESPACE)
    documents = (yaml.safe_load_all(text) for path, text in files.items() if path.endswith(".yaml"))
    return [item for items in documents for item in items if item]


#: Labels by which a release or alias finds its own pods.
IDENTITY = ("app.kubernetes.io/name", "app.kubernetes.io/instance")


def selectors_of(item: Manifest) -> list[dict[str, str]]:
    """Return the label selectors of an object that finds pods or services of this chart."""
    spec = item.get("spec", {})
    if item["kind"] == "Service":
        return [spec["selector"]]
    if item["kind"] == "NetworkPolicy":
        rules = [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]
        peers = [peer for rule in rules for peer in (*rule.get("from", ()), *rule.get("to", ()))]
        own = [one["podSelector"] for one in peers if one.keys() == {"podSelector"}]
        return [one.get("matchLabels", {}) for one in (spec["podSelector"], *own)]
    found = spec.get("selector")
    return [found["matchLabels"]] if isinstance(found, dict) else []


def assert_apart(objects: list[Manifest], name: str, release: str) -> None:
    """Assert that each selector has the identity, and that each pod is denied everything else."""
    identity = dict(zip(IDENTITY, (name, release), strict=True))
    for item in objects:
        for labels in selectors_of(item):
            assert labels.items() >= identity.items(), item["metadata"]["name"]
    (denied,) = (item for item in objects if item["metadata"]["name"].endswith("-default-deny"))
    assert denied["spec"]["podSelector"] == {"matchLabels": identity}
    pods = [pod for _, pod in Rendered({"all": objects}, "").pods()]
    assert len(pods) >= 10
    for pod in pods:
        assert pod["metadata"]["labels"].items() >= identity.items()


def test_two_aliases_share_no_name_and_no_pod(tmp_path: Path) -> None:
    folder = parent(tmp_path, {"alias": "first"}, {"alias": "second"})
    objects = rendered_above(folder, {"first": EVERYTHING, "second": EVERYTHING})
    by_alias: dict[str, list[Manifest]] = {"first": [], "second": []}
    for item in objects:
        by_alias[item["metadata"]["labels"]["app.kubernetes.io/name"]].append(item)
    one, other = (
        {(item["kind"], item["metadata"]["name"]) for item in items} for items in by_alias.values()
    )
    assert len(one) == len(other) >= 50
    assert one & other == set()
    for alias, items in by_alias.items():
        assert_apart(items, alias, "prod")
    labels = [
        item["spec"]["template"]["metadata"]["labels"]
        for item in by_alias["second"]
        if item["kind"] in ("Deployment", "StatefulSet", "DaemonSet")
    ]
    assert labels
    selectors = [
        item["spec"]["selector"] for item in by_alias["first"] if item["kind"] == "Service"
    ] + [
        item["spec"]["podSelector"].get("matchLabels", {})
        for item in by_alias["first"]
        if item["kind"] == "NetworkPolicy"
    ]
    for selector in selectors:
        assert not any(selector.items() <= found.items() for found in labels), selector


def test_a_renamed_release_selects_its_own_pods_everywhere() -> None:
    for rendered in every_rendering(merge(ALL, at("nameOverride", "rl")), name="eval"):
        assert_apart(rendered.objects, "rl", "eval")


def test_a_chart_above_leaves_it_out_by_a_condition(tmp_path: Path) -> None:
    folder = parent(tmp_path, {"condition": "assay.enabled"})
    assert rendered_above(folder, at("assay.enabled", False)) == []
    found = rendered_above(folder, at("assay.enabled", True))
    assert "prod-assay-trainer" in {item["metadata"]["name"] for item in found}
    with pytest.raises(helm_python.HelmRenderError, match="this one has no such condition"):
        render(at("enabled", False))


def test_a_chart_above_hands_down_registry_secrets_and_class(tmp_path: Path) -> None:
    handed = {
        "imageRegistry": "mirror.example.com",
        "imagePullSecrets": ["mirror", {"name": "other"}],
        "storageClass": "shared",
        "region": "north",
    }
    values = {"global": handed, "assay": at("image.pullSecrets", ["ours", "mirror"])}
    objects = rendered_above(parent(tmp_path, {}), values)
    assert render({"global": handed}).objects
    pods = [item["spec"]["template"] for item in objects if "template" in item.get("spec", {})]
    assert len(pods) > 6
    for pod in pods:
        assert [item["name"] for item in pod["spec"]["imagePullSecrets"]] == (
            ["ours", "mirror", "other"]
        )
        assert pod["spec"]["containers"][0]["image"].startswith("mirror.example.com/")
    claims = [item["spec"] for item in objects if item["kind"] == "PersistentVolumeClaim"]
    redis = next(
        item
        for item in objects
        if item["metadata"]["name"] == "prod-assay-redis" and item["kind"] == "StatefulSet"
    )
    claims.append(redis["spec"]["volumeClaimTemplates"][0]["spec"])
    assert [claim["storageClassName"] for claim in claims] == ["shared"] * 3


def test_further_objects_are_rendered_with_the_release() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "{{ .Release.Name }}-quota"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "8"}},
    }
    text = (
        'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ include "assay.fullname" . }}-more}'
    )
    rendered = render({"extraObjects": [quota, text]}, name="prod")
    check(rendered, ("1.37.0",))
    found = rendered.by_template["shared/extra-objects.yaml"]
    assert [item["metadata"]["name"] for item in found] == ["prod-quota", "prod-assay-more"]


def test_every_pod_is_still_named_by_its_component() -> None:
    for name, pod in every_pod({}).items():
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        assert name.split()[0].startswith(component)
