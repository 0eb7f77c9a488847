"""Kubernetes accepts the rendered chart: for every example, and every switch."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from tests.support.chart.crds import check_crd
from tests.support.chart.kubernetes_schemas import check_object
from tests.support.chart.rendering import (
    CHART,
    EXAMPLES,
    VERSIONS,
    at,
    chart,
    check,
    example,
    merge,
    render,
)

COMBINED = ("values-a100.yaml", "values-production.yaml")


@pytest.mark.parametrize(
    "names", [(), *((name,) for name in EXAMPLES), COMBINED], ids=lambda names: "+".join(names)
)
def test_every_example_is_valid_for_the_oldest_and_the_newest_kubernetes(
    names: tuple[str, ...],
) -> None:
    check(render(example(*names)))


def switches(values: dict[str, Any], path: str = "") -> list[tuple[str, bool]]:
    """Return every switch of the values, turned over."""
    found = []
    for key, value in values.items():
        where = f"{path}.{key}" if path else key
        if isinstance(value, bool):
            found.append((where, not value))
        elif isinstance(value, dict):
            found.extend(switches(value, where))
    return found


DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
DEFAULTS.pop("enabled")  # of a chart above: test_names.py
#: Values that a switch needs too, as the chart says without them.
BESIDE: dict[str, dict[str, Any]] = {
    "redis.enabled": {
        "redis": {"external": {"host": "redis.example.com", "cidrs": ["10.0.0.9/32"]}}
    },
    "redis.external.tls": {
        "redis": {
            "enabled": False,
            "external": {"host": "redis.example.com", "cidrs": ["10.0.0.9/32"]},
        }
    },
    "ingress.enabled": {"ingress": {"hosts": {"trainer": "assay.example.com"}}},
    "inference.modelDownload.enabled": {
        "inference": {
            "modelDownload": {"repository": "a/b", "folder": "b"},
            "modelCache": {"existingClaim": "models"},
        }
    },
}


@pytest.mark.parametrize(("path", "value"), switches(DEFAULTS))
def test_every_switch_is_valid(path: str, value: bool) -> None:
    check(render(merge(BESIDE.get(path, {}), at(path, value))), VERSIONS[-1:])


CHOICES: list[tuple[str, Any]] = [
    ("inference", {"accelerator": "none", "engine": "transformers"}),
    ("inference.engine", "sglang"),
    ("inference.engine", "transformers"),
    ("inference.replicas", 3),
    ("inference.arguments", "--enforce-eager"),
    ("inference.runtimeClassName", "nvidia"),
    ("inference.secretEnvironment", [{"name": "HF_TOKEN", "secret": "hub", "key": "token"}]),
    ("sandbox.variant", "slim"),
    ("sandbox.isolation", "gvisor"),
    ("sandbox.isolation", "fallback"),
    ("sandbox.level", "single_use"),
    ("judge.shared", "redis"),
    ("judge.config", {"chain": [{"kind": "reference"}]}),
    (
        "judge.egress.pods",
        [{"namespace": "models", "pods": {"app": "vllm"}, "port": 8000}],
    ),
    ("reward.rubrics", {"mine": {"description": "x"}}),
    (
        "reward.executor.config",
        {"models": [{"name": "a", "base_url": "http://a/v1", "model": "a"}]},
    ),
    ("trainer", {"kind": "Job", "run": {"name": "first", "file": {"name": "first"}}}),
    ("trainer", {"kind": "Job", "nodes": 2, "gpus": 8, "run": {"file": {"name": "first"}}}),
    ("trainer.accelerator", "none"),
    ("trainer.weightTransfer", "direct"),
    ("trainer.datasets.existingClaim", "data"),
    ("trainer.runs.existingClaim", "runs"),
    ("trainer.runs.storageClass", "shared"),
    ("inference.modelCache.existingClaim", "models"),
    ("worker.autoscaling", {"enabled": True, "by": "queue"}),
    ("worker.autoscaling", {"enabled": True, "by": "cpu", "minReplicas": 1}),
    ("inference.autoscaling", {"enabled": True}),
    ("inference.replicas", 0),
    ("trainer.replicas", 0),
    ("trainer.spot.noticeS", 30),
    ("worker.environment", {"ASSAY_LOG_LEVEL": "DEBUG", "ASSAY_BODY_LIMIT_BYTES": 1048576}),
    ("worker.tolerations", [{"key": "spot", "operator": "Exists"}]),
    ("image.pullSecrets", ["registry"]),
    ("monitoring.traces.endpoint", "http://collector.monitoring:4318"),
    ("networkPolicy.clients", [{"namespaceSelector": {"matchLabels": {"team": "rl"}}}]),
    ("networkPolicy.dns.address", "169.254.20.10"),
]


@pytest.mark.parametrize(("path", "value"), CHOICES)
def test_every_choice_is_valid(path: str, value: object) -> None:
    check(render(at(path, value)), VERSIONS[-1:])


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_two_objects_of_a_kind_have_one_name(name: str) -> None:
    rendered = render(example(name))
    names = Counter((item["kind"], item["metadata"]["name"]) for item in rendered.objects)
    assert [key for key, count in names.items() if count > 1] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_template_holds_one_resource(name: str) -> None:
    assert all(len(items) <= 1 for items in render(example(name)).by_template.values())


@pytest.mark.parametrize("name", ["a" * 53, "my-assay", "eval"])
def test_a_release_may_have_any_name(name: str) -> None:
    rendered = render(example("values-a100.yaml"), name=name)
    check(rendered, VERSIONS[-1:])
    assert all(len(item["metadata"]["name"]) <= 63 for item in rendered.objects)


def test_the_validator_finds_a_mistake() -> None:
    service = render().one("judge/service.yaml")
    service["spec"]["ports"][0]["prot"] = 1
    assert check_object(service, VERSIONS[0]) == (
        "$.spec.ports[0]: Additional properties are not allowed ('prot' was unexpected)"
    )
    scaled = render(at("worker.autoscaling.enabled", True)).one("worker/scaledobject.yaml")
    scaled["spec"]["fallback"]["replica"] = 1
    assert check_crd(scaled) == (
        "$.spec.fallback: Additional properties are not allowed ('replica' was unexpected)"
    )
    del scaled["spec"]["fallback"]["replica"]
    scaled["spec"]["triggers"][0]["metadata"]["listname"] = "rollouts"
    assert "is not valid under any of the given schemas" in str(check_crd(scaled))


def test_helm_lints_the_chart() -> None:
    result = helm_python.lint(CHART)
    assert result["errors"] == []
    assert [m for m in result["messages"] if m["severity"] > 1] == []


def test_the_package_is_the_chart(tmp_path: Path) -> None:
    """Links into the repository are files in it: its packages need nothing else."""
    archive = helm_python.package(CHART, destination=tmp_path)
    packed, ours = helm_python.Chart.load(archive), helm_python.Chart.load(CHART)
    assert {f["name"]: f["data"] for f in packed.files} == {
        f["name"]: f["data"] for f in ours.files
    }
    assert packed.render(name="assay") == ours.render(name="assay")


def test_the_seccomp_profile_is_the_sandboxs_own(tmp_path: Path) -> None:
    rendered = render(at("sandbox.seccompInstaller.enabled", True))
    profile = CHART.parents[1] / "services" / "sandbox" / "seccomp.json"
    shipped = rendered.one("sandbox/seccomp-configmap.yaml")["data"]["sandbox.json"]
    found = yaml.safe_load(shipped)
    assert found == yaml.safe_load(profile.read_text())
    # Container runtimes read the form of the OCI's runtime specification, which Docker's is wider
    # than: what only Docker knows would be passed over in silence.
    assert set(found) <= {"defaultAction", "defaultErrnoRet", "architectures", "syscalls"}
    for rule in found["syscalls"]:
        assert set(rule) <= {"names", "action", "errnoRet", "args"}
        assert all(
            set(item) <= {"index", "value", "valueTwo", "op"} for item in rule.get("args", ())
        )


def test_dashboards_and_rules_come_from_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "assay"
    shutil.copytree(CHART, folder)
    for name in ("dashboards", "rules"):
        shutil.rmtree(folder / "files" / name, ignore_errors=True)
        (folder / "files" / name).mkdir()
    enabled = {"monitoring": {"rules": {"enabled": True}, "dashboards": {"enabled": True}}}
    rendered = render(enabled, folder=folder)
    assert rendered.by_template["monitoring/dashboards.yaml"] == []
    assert rendered.by_template["monitoring/prometheusrule.yaml"] == []

    full = tmp_path / "full"
    shutil.copytree(folder, full)
    mesh = '{"title": "{{ mesh }}", "uid": "mesh", "templating": {"list": []}}'
    (full / "files" / "dashboards" / "mesh.json").write_text(mesh)
    for name in ("one", "two"):
        (full / "files" / "rules" / f"{name}.yml").write_text(
            f"groups:\n  - name: {name}\n    rules:\n"
            "      - alert: Down\n        expr: up == 0\n        for: 1m\n"
            "        labels: {severity: warning}\n"
            "        annotations: {summary: '{{ $labels.job }} is down'}\n"
        )
    rendered = render(enabled, folder=full)
    check(rendered, VERSIONS[-1:])
    dashboards = rendered.one("monitoring/dashboards.yaml")
    (board,) = dashboards["data"].values()
    assert json.loads(board)["title"] == "{{ mesh }} (mesh/assay)"
    assert dashboards["metadata"]["labels"]["grafana_dashboard"] == "1"
    groups = rendered.one("monitoring/prometheusrule.yaml")["spec"]["groups"]
    assert [group["name"] for group in groups] == ["one", "two"]
    assert groups[0]["rules"][0]["annotations"]["summary"] == "{{ $labels.job }} is down"


def test_what_ships_fits_into_its_objects_and_is_not_changed_on_the_way() -> None:
    enabled = {"monitoring": {"rules": {"enabled": True}, "dashboards": {"enabled": True}}}
    rendered = render(enabled)
    boards = rendered.one("monitoring/dashboards.yaml")["data"]
    assert sum(map(len, boards.values())) < 900_000, "a ConfigMap holds a mebibyte"
    for path in (CHART / "files/dashboards").glob("*.json"):
        text = path.read_text().replace(".*assay.*", ".*")
        assert json.loads(boards[f"mesh-assay-{path.name}"])["panels"] == json.loads(text)["panels"]
    (path,) = (CHART / "files/rules").glob("*.yml")
    own = 'namespace="mesh", release="assay"'
    text = path.read_text().replace('release=~".*"', own).replace(".*assay.*", ".*")
    expected = [r["expr"] for g in yaml.safe_load(text)["groups"] for r in g["rules"]]
    groups = rendered.one("monitoring/prometheusrule.yaml")["spec"]["groups"]
    assert [rule["expr"] for group in groups for rule in group["rules"]] == expected


@pytest.mark.parametrize("names", [(), *((name,) for name in EXAMPLES)])
def test_nothing_is_rendered_from_a_value_that_is_not_there(names: tuple[str, ...]) -> None:
    for path, text in chart().render(example(*names), name="assay").items():
        assert not re.search(r"<no value>|%!|<nil>|map\[", text), path


def test_the_notes_name_what_has_to_be_there_and_what_is_weaker() -> None:
    notes = render().notes
    assert "assay-tokens: inference, sandbox, judge, reward, trainer" in notes
    assert re.search(r"/var/lib/kubelet/seccomp/assay/sandbox-[\d.]+\.json", notes)
    assert "helm rollback assay --namespace mesh" in notes
    production = render(example("values-production.yaml")).notes
    assert "judge-keys: primary" in production
    weaker = render(
        {
            "auth": {"enabled": False},
            "networkPolicy": {"enabled": False},
            "sandbox": {"isolation": "fallback"},
            "trainer": {"kind": "Job", "run": {"name": "first", "file": {"name": "a"}}},
        }
    ).notes
    assert "No tokens are asked for" in weaker
    assert "There are no network policies" in weaker
    assert "the level fallback" in weaker
    assert "A changed run file begins a new run" in weaker
    assert "kubectl logs --namespace mesh --follow job/assay-run-first-" in weaker
