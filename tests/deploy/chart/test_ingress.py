"""Names outside: every route of the API and nothing else, and who may come in, by preset."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import helm_python
import pytest
from fastapi import FastAPI

from assay_inference.api.app import create_app as create_inference
from assay_inference.settings import InferenceSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_trainer.service.app import create_app as create_trainer
from assay_trainer.settings import TrainerSettings
from tests.deploy.chart.test_policies import PORTS, inward
from tests.support.chart.gateway import PublicRule, public_rules
from tests.support.chart.reachability import Edge, Place, edges, pods_of
from tests.support.chart.rendering import (
    Rendered,
    Values,
    at,
    check,
    environment,
    example,
    merge,
    render,
)

HOSTS = {name: f"{name}.example.com" for name in ("trainer", "inference", "reward")}
#: Each way in; the test of edges has its own addresses.
WAYS: dict[str, dict[str, Any]] = {
    "nginx": {},
    "alb": {"preset": "alb", "sources": [{"cidr": "10.40.0.0/16"}]},
    "gclb": {"preset": "gclb"},
    "gateway": {
        "kind": "HTTPRoute",
        "preset": "none",
        "controller": "envoy-gateway-system",
        "gateway": {"name": "front", "namespace": "gateways", "sectionName": "https"},
    },
    "gclb-gateway": {"kind": "HTTPRoute", "preset": "gclb", "gateway": {"name": "front"}},
}
CLOSED = ("/metrics", "/health", "/ready")


def values(way: str) -> Values:
    return {"ingress": {"enabled": True, "hosts": HOSTS, **WAYS[way]}}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_valid(way: str) -> None:
    check(render(values(way)))


def paths_of(app: FastAPI) -> set[str]:
    """Return every path of the OpenAPI page but the probes, with a value for each parameter."""
    found = set()
    for path, methods in app.openapi()["paths"].items():
        if not any("probes" in route.get("tags", ()) for route in methods.values()):
            found.add(path.replace("{", "").replace("}", "").replace(":path", "/deep"))
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The paths of each service that may have a name outside."""
    runs: Path = tmp_path_factory.mktemp("runs")
    return {
        "inference": paths_of(create_inference(InferenceSettings())),
        "reward": paths_of(create_reward(RewardSettings())),
        "trainer": paths_of(create_trainer(TrainerSettings(runs=runs))) | {"/", "/open"},
    }


@pytest.mark.parametrize("way", WAYS)
def test_each_route_of_the_api_is_reached_and_no_probe_is(
    way: str, pages: dict[str, set[str]]
) -> None:
    rules = list(public_rules(render(values(way)).objects))
    for service, host in HOSTS.items():
        mine = [rule for rule in rules if rule.host == host]
        assert {rule.service for rule in mine} == {f"assay-{service}"}
        assert len(pages[service]) >= 5
        missing = {path for path in pages[service] if not any(r.matches(path) for r in mine)}
        assert missing == set()
        for path in (*CLOSED, "/metrics/", "/health/x", "/docs", "/openapi.json", "/v10"):
            assert not any(rule.matches(path) for rule in mine), path


def test_a_prefix_covers_whole_segments_and_an_exact_path_itself() -> None:
    prefix = PublicRule("h", "Prefix", "/v1", "s")
    assert [prefix.matches(path) for path in ("/v1", "/v1/", "/v1/a", "/v10", "/")] == [
        *(True, True, True, False, False)
    ]
    assert PublicRule("h", "Prefix", "/", "s").matches("/metrics"), "the rule of old is seen"
    exact = PublicRule("h", "Exact", "/", "s")
    assert (exact.matches("/"), exact.matches("/metrics")) == (True, False)


COMERS = [
    Place("nginx", "10.244.9.3", "ingress-nginx", {"app": "controller"}),
    Place("envoy", "10.244.9.7", "envoy-gateway-system", {"app": "envoy"}),
    Place("alb", "10.40.3.9"),
    Place("gclb", "130.211.1.7"),
    Place("gclb-health", "35.191.200.1"),
    Place("internet", "8.8.8.8"),
    Place("lan", "10.41.0.1"),
]


@pytest.mark.parametrize(
    ("way", "comers"),
    [
        ("nginx", {"nginx"}),
        ("alb", {"alb"}),
        ("gclb", {"gclb", "gclb-health"}),
        ("gateway", {"envoy"}),
        ("gclb-gateway", {"gclb", "gclb-health"}),
    ],
)
def test_these_alone_come_in_and_only_to_what_has_a_name(way: str, comers: set[str]) -> None:
    rendered = render(values(way))
    named = (("trainer", 8005), ("engine", 8001), ("reward", 8004))
    assert edges(rendered, COMERS, pods_of(rendered), PORTS) == {
        Edge(comer, *service) for comer in comers for service in named
    }
    one = {"ingress": {"hosts": {"inference": "", "reward": ""}}}
    only = render(merge(values(way), one))
    assert {edge.receiver for edge in edges(only, COMERS, pods_of(only), PORTS)} == {"trainer"}
    assert inward(render()) == set()


def test_a_preset_brings_what_its_controller_needs() -> None:
    def metadata(way: str, template: str) -> dict[str, Any]:
        found: dict[str, Any] = render(values(way)).one(template)["metadata"]
        return found

    alb = render(values("alb")).one("network/ingress.yaml")
    assert alb["spec"]["ingressClassName"] == "alb"
    assert alb["metadata"]["annotations"]["alb.ingress.kubernetes.io/target-type"] == "ip"
    assert metadata("gclb", "network/ingress.yaml")["annotations"] == {
        "kubernetes.io/ingress.class": "gce"
    }
    for service in HOSTS:
        negs = metadata("gclb", f"{service}/service.yaml")["annotations"]
        assert negs == {"cloud.google.com/neg": '{"ingress": true}'}
        assert "annotations" not in metadata("nginx", f"{service}/service.yaml")
    nginx = metadata("nginx", "network/ingress.yaml")["annotations"]
    assert nginx["nginx.ingress.kubernetes.io/proxy-read-timeout"] == "3600"
    own = {"ingress": {"annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "1m"}}}
    changed = render(merge(values("nginx"), own)).one("network/ingress.yaml")
    assert changed["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"] == "1m"


JOB: Values = {"trainer": {"kind": "Job", "run": {"file": {"name": "a"}}}}
ELSEWHERE = {"url": "http://b.c:8001", "namespace": "c", "podLabels": {"app": "b"}}
#: For each service, values under which a release has none.
ABSENT: list[tuple[str, Values]] = [
    ("trainer", JOB),
    ("trainer", merge(JOB, at("trainer.nodes", 2))),
    ("trainer", at("trainer.enabled", False)),
    ("reward", at("reward.enabled", False)),
    ("inference", at("inference.enabled", False)),
    (
        "inference",
        {
            "inference": {"enabled": False, "external": ELSEWHERE},
            "trainer": {"weightTransfer": "upload"},
        },
    ),
]


@pytest.mark.parametrize(("service", "absent"), ABSENT)
def test_a_name_without_a_service_behind_it_is_refused(service: str, absent: Values) -> None:
    message = f"ingress.hosts.{service}: {service}.example.com leads to no service"
    for way in ("nginx", "gateway"):
        with pytest.raises(helm_python.HelmRenderError, match=message):
            render(merge(values(way), absent))


@pytest.mark.parametrize(
    "pair", [("inference", "reward"), ("inference", "trainer"), ("reward", "trainer")]
)
def test_two_services_have_no_host_in_common(pair: tuple[str, str]) -> None:
    one, other = (f"ingress.hosts.{name}" for name in pair)
    shared = merge(at(one, "a.example.com"), at(other, "a.example.com"))
    message = f"{one} and {other} are both a.example.com"
    for way in ("nginx", "gateway"):
        with pytest.raises(helm_python.HelmRenderError, match=message):
            render(merge(values(way), shared))


def test_the_example_of_a_cloud_says_which_host_a_job_has_no_service_for() -> None:
    run = merge(example("values-eks.yaml"), JOB)
    with pytest.raises(helm_python.HelmRenderError, match=r"ingress\.hosts\.trainer"):
        render(run)
    assert_targets_exist(render(merge(run, at("ingress.hosts.trainer", ""))))


def assert_targets_exist(rendered: Rendered) -> None:
    """Assert that routes, autoscalers and addresses lead to what the release has."""
    made = {(item["kind"], item["metadata"]["name"]) for item in rendered.objects}
    wanted = {("Service", rule.service) for rule in public_rules(rendered.objects)}
    for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
        for item in rendered.of_kind(kind):
            target = item["spec"]["scaleTargetRef"]
            wanted.add((target.get("kind", "Deployment"), target["name"]))
    variables = [value for _, pod in rendered.pods() for value in environment(pod).values()]
    for value in variables:
        for word in value.split() if isinstance(value, str) else ():
            address = word.removeprefix("dns+")
            host = urlsplit(address if "//" in address else f"//{address}").hostname or ""
            if host.startswith("assay-"):
                wanted.add(("Service", host.partition(".")[0]))
    assert wanted
    assert wanted <= made


AUTOSCALED: Values = {
    name: {"autoscaling": {"enabled": True}} for name in ("inference", "judge", "worker", "reward")
}


def test_the_tests_of_a_release_ask_no_redis_that_is_not_there() -> None:
    off = merge(at("trainer.enabled", False), at("worker.enabled", False))
    rendered = render(merge(off, {"judge": {"shared": "process", "replicas": 1}}))
    assert environment(rendered.one("tests/closed.yaml"))["ADDRESSES"]
    assert_targets_exist(rendered)


@pytest.mark.parametrize(
    "off", ["", "inference", "sandbox", "judge", "reward", "trainer", "worker"]
)
def test_every_target_exists_whichever_part_is_off(off: str) -> None:
    chosen = merge(values("nginx"), AUTOSCALED)
    if off:
        chosen = merge(chosen, at(f"{off}.enabled", False))
    if off in HOSTS:
        chosen = merge(chosen, at(f"ingress.hosts.{off}", ""))
    assert_targets_exist(render(chosen))
