"""Objects for the Prometheus operator and Grafana's sidecar."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.chart.test_names import parent, rendered_above
from tests.support.chart.rendering import Values, at, merge, render

RULES: Values = {"monitoring": {"rules": {"enabled": True}}}
BOARDS: Values = {"monitoring": {"dashboards": {"enabled": True}}}

#: For each template, values under which it renders nothing.
DISABLED: dict[str, list[Values]] = {
    "monitoring/servicemonitor.yaml": [{}],
    "monitoring/prometheusrule.yaml": [{}],
    "monitoring/dashboards.yaml": [{}],
}


@pytest.mark.parametrize(
    ("template", "values"), [(name, item) for name, items in DISABLED.items() for item in items]
)
def test_it_renders_nothing_when_disabled(template: str, values: Values) -> None:
    assert render(values).by_template[template] == []


def test_a_servicemonitor_finds_every_service_that_has_metrics() -> None:
    on = {"enabled": True, "intervalS": 30, "labels": {"release": "prometheus"}}
    rendered = render(
        {"monitoring": {"serviceMonitor": on}, "inference": {"replicas": 2}},
    )
    monitor = rendered.one("monitoring/servicemonitor.yaml")
    selector = monitor["spec"]["selector"]["matchLabels"]
    (endpoint,) = monitor["spec"]["endpoints"]
    found = {
        service["metadata"]["name"]
        for service in rendered.of_kind("Service")
        if selector.items() <= service["metadata"]["labels"].items()
        and endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    }
    names = ("inference", "engine", "sandbox", "judge", "reward", "trainer")
    assert found == {f"assay-{name}" for name in names}
    assert "jobLabel" not in monitor["spec"], "the rules look for jobs by these names"
    (relabelling,) = endpoint["relabelings"]
    assert relabelling == {"targetLabel": "release", "replacement": "assay"}
    for service in rendered.of_kind("Service"):
        assert service["metadata"]["labels"]["app.kubernetes.io/instance"] == "assay"
    assert endpoint["path"] == "/metrics"
    assert endpoint["interval"] == "30s"
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


def test_traces_are_sent_by_all_but_the_sandbox() -> None:
    rendered = render(at("monitoring.traces.endpoint", "http://collector:4318"))
    senders = {
        name
        for name, pod in rendered.pods()
        for item in pod["spec"]["containers"][0].get("env", ())
        if item["name"] == "ASSAY_OTLP_ENDPOINT"
    }
    assert senders == {f"assay-{n}" for n in ("engine", "judge", "reward", "trainer", "worker")}


def test_alerts_of_a_release_name_it_and_link_to_an_address() -> None:
    runbook = at("monitoring.rules.runbook", "https://docs.example.com/runbook")
    groups = render(merge(RULES, runbook)).one("monitoring/prometheusrule.yaml")["spec"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) > 20
    for rule in rules:
        assert rule["labels"].items() >= {"namespace": "mesh", "release": "assay"}.items()
        assert 'namespace="mesh", release="assay"' in rule["expr"]
        url = rule["annotations"]["runbook_url"]
        assert re.fullmatch(r"https://docs\.example\.com/runbook#assay[a-z]+", url)
        assert "runbook" not in rule["annotations"]
    unset = render(RULES).one("monitoring/prometheusrule.yaml")["spec"]["groups"]
    found = [rule["annotations"] for group in unset for rule in group["rules"]]
    assert not any("runbook_url" in one for one in found)
    assert all(one["runbook"].startswith("docs/runbook.md#assay") for one in found)


def test_two_releases_have_no_dashboard_in_common() -> None:
    """Grafana refuses a second dashboard of a uid, and its sidecar writes one file for a name."""
    uids, files = set(), set()
    for namespace, name in (("a", "assay"), ("b", "assay"), ("a", "assay-2")):
        rendered = render(BOARDS, name=name, namespace=namespace)
        for file, text in rendered.one("monitoring/dashboards.yaml")["data"].items():
            board = json.loads(text)
            assert len(board["uid"]) <= 40, "Grafana's limit"
            chosen = {one["name"]: one["current"] for one in board["templating"]["list"]}
            assert chosen["namespace"]["value"] == namespace
            assert chosen["release"]["value"] == ("assay" if name == "assay" else f"{name}-assay")
            uids.add(board["uid"])
            files.add(file)
    assert (len(uids), len(files)) == (21, 21)


def test_two_aliases_have_no_series_alert_or_dashboard_in_common(tmp_path: Path) -> None:
    """The ServiceMonitor of an alias labels its series, and the alias's rules name this label."""
    watched: dict[str, Any] = merge(
        merge(RULES, BOARDS), at("monitoring.serviceMonitor.enabled", True)
    )
    folder = parent(tmp_path, {"alias": "first"}, {"alias": "second"})
    objects = rendered_above(folder, {"first": watched, "second": watched})
    seen: dict[str, set[str]] = {"uid": set(), "title": set(), "file": set(), "expr": set()}
    for alias in ("first", "second"):
        label = "app.kubernetes.io/name"
        mine = [item for item in objects if item["metadata"]["labels"][label] == alias]
        (monitor,) = (item for item in mine if item["kind"] == "ServiceMonitor")
        (relabelling,) = monitor["spec"]["endpoints"][0]["relabelings"]
        release = relabelling["replacement"]
        assert release == f"prod-{alias}"
        (rule,) = (item for item in mine if item["kind"] == "PrometheusRule")
        for one in (one for group in rule["spec"]["groups"] for one in group["rules"]):
            assert set(re.findall(r'release=~?"([^"]*)"', one["expr"])) == {release}
            assert one["labels"]["release"] == release
            seen["expr"].add(one["expr"])
        (boards,) = (item for item in mine if item["metadata"]["name"].endswith("-dashboards"))
        for file, text in boards["data"].items():
            board = json.loads(text)
            seen["file"].add(file)
            seen["uid"].add(board["uid"])
            seen["title"].add(board["title"])
    assert {name: len(found) for name, found in seen.items()} == {
        **dict.fromkeys(("uid", "title", "file"), 2 * len(boards["data"])),
        "expr": 2 * sum(len(group["rules"]) for group in rule["spec"]["groups"]),
    }


@pytest.mark.parametrize(
    ("sandbox", "is_alarm"),
    [
        ({"isolation": "fallback"}, True),
        ({"isolation": "userNamespaces", "runtimeClassName": "crun"}, True),
        ({"isolation": "fallback", "runtimeClassName": "kata"}, False),
        ({"isolation": "gvisor"}, False),
        ({"isolation": "gvisor", "runtimeClassName": "runsc"}, False),
    ],
)
def test_the_level_fallback_is_an_alarm_unless_another_kernel_isolates(
    sandbox: Values, is_alarm: bool
) -> None:
    rendered = render(merge(RULES, {"sandbox": sandbox}))
    groups = rendered.one("monitoring/prometheusrule.yaml")["spec"]["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    assert ("AssaySandboxFallback" in alerts) == is_alarm
    shares = "share the node's kernel" in rendered.notes
    assert shares == (sandbox == {"isolation": "fallback"})
