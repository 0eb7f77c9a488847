"""Objects for the Prometheus operator and Grafana's sidecar."""

import pytest

from tests.support.chart.rendering import Values, at, render

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
