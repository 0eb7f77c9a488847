"""Edges that values add: rules of one's own, parts that run elsewhere, callers of a sandbox."""

from typing import Any

import helm_python
import pytest

from tests.deploy.chart.test_policies import (
    EVERYWHERE,
    MESH,
    PORTS,
    TESTS,
    inward,
    outward,
    within,
)
from tests.support.chart.reachability import Edge, Place, Port, edges, pods_of
from tests.support.chart.rendering import (
    NAMESPACE,
    Values,
    at,
    check,
    environment,
    merge,
    render,
)

PARTS = ("inference", "sandbox", "judge", "reward", "trainer", "worker", "redis", "tests")
#: The pods of a part; each other part is a pod of its name.
PODS = {"inference": {"engine"}, "tests": {"test-ready", "test-score", "test-closed"}}
TOOL = Place("tool", "10.9.8.7", "tools", {"app": "tool"})
PEER = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tools"}},
    "podSelector": {"matchLabels": {"app": "tool"}},
}


def between(values: Values, *others: Place) -> set[Edge]:
    """Return the permitted connections between pods and other places, both ways."""
    rendered = render(values)
    pods = pods_of(rendered)
    ports = [*PORTS, Port("TCP", 7777)]
    return edges(rendered, pods, others, ports) | edges(rendered, others, pods, ports)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("direction", "key"), [("extraIngress", "from"), ("extraEgress", "to")])
def test_a_rule_of_ones_own_opens_this_edge_of_this_part(
    part: str, direction: str, key: str
) -> None:
    rule = {key: [PEER], "ports": [{"protocol": "TCP", "port": 7777}]}
    values = at(f"networkPolicy.{direction}.{part}", [rule])
    check(render(values))
    pods = PODS.get(part, {part}) | ({"test-sandbox-closed"} if part == "sandbox" else set())
    ways = {Edge("tool", pod, 7777) if key == "from" else Edge(pod, "tool", 7777) for pod in pods}
    assert between(values, TOOL) == ways
    assert (within(render(values)), inward(render(values)), outward(render(values))) == (
        within(render()),
        inward(render()),
        outward(render()),
    )


def test_the_rules_of_inference_are_for_router_and_engines() -> None:
    rule = {"to": [PEER], "ports": [{"port": 7777}]}
    values = {
        "inference": {"replicas": 2},
        "networkPolicy": {"extraEgress": {"inference": [rule]}},
    }
    assert between(values, TOOL) == {Edge(pod, "tool", 7777) for pod in ("router", "engine")}


@pytest.mark.parametrize(
    "rule",
    [{"too": []}, {"to": [{}]}, {"to": [{"pods": {}}]}, {"ports": [{"name": "http"}]}, "all"],
)
def test_a_rule_that_is_none_is_refused(rule: object) -> None:
    with pytest.raises(helm_python.HelmValuesError, match="/networkPolicy/extraEgress/reward/0"):
        render(at("networkPolicy.extraEgress.reward", [rule]))


LABELS = {"app.kubernetes.io/instance": "box", "assay/network": "sandbox"}
SANDBOX: dict[str, Any] = {
    "sandbox": {
        "enabled": False,
        "external": {
            "url": "http://box-assay-sandbox.sandboxes:8002",
            "tokenSecret": {"name": "box-tokens"},
            "namespace": "sandboxes",
            "podLabels": LABELS,
        },
    }
}
THERE = Place("there", "10.9.8.6", "sandboxes", LABELS)
BESIDE = Place("beside", "10.9.8.5", "sandboxes", {"app": "other"})


def test_a_sandbox_elsewhere_is_reached_by_reward_alone_with_its_own_token() -> None:
    rendered = render(SANDBOX)
    check(rendered)
    assert between(SANDBOX, THERE, BESIDE) == {Edge("reward", "there", 8002)}
    found = {name: environment(pod) for name, pod in rendered.pods()}
    assert found["assay-reward"]["ASSAY_SANDBOX_URL"] == "http://box-assay-sandbox.sandboxes:8002"
    assert found["assay-reward"]["ASSAY_SANDBOX_TOKEN"] == {
        "secretKeyRef": {"name": "box-tokens", "key": "sandbox"}
    }
    assert [name for name, env in found.items() if "ASSAY_SANDBOX_URL" in env] == ["assay-reward"]
    assert within(rendered) == (MESH | TESTS) - {Edge("reward", "sandbox", 8002)}
    assert "tests/score.yaml" in [path for path, items in rendered.by_template.items() if items]


def test_a_sandbox_behind_addresses_is_reached_at_its_port() -> None:
    external = {
        "url": "https://sandbox.example.com",
        "port": 443,
        "cidrs": ["192.0.2.16/28"],
        "namespace": "",
        "podLabels": {},
    }
    values = {"sandbox": {"enabled": False, "external": external}, "auth": {"enabled": False}}
    behind = [Place("lb", "192.0.2.20"), Place("near", "192.0.2.40")]
    assert between(values, *behind) == {Edge("reward", "lb", 443)}
    assert "ASSAY_SANDBOX_TOKEN" not in environment(dict(render(values).pods())["assay-reward"])


ADDRESSES = [
    ("http://a.b:9000", 0, 9000),
    ("https://a.b", 0, 443),
    ("http://a.b", 0, 80),
    ("http://[fd00::1]:9000", 0, 9000),
    ("http://[fd00::1]", 0, 80),
    ("http://a.b:80", 8002, 8002),  # a Service that maps 80 to its pods' 8002
]


@pytest.mark.parametrize(("url", "port", "opened"), ADDRESSES)
def test_policies_open_the_port_of_an_address_or_of_its_pods(
    url: str, port: int, opened: int
) -> None:
    token = {"name": "tokens"}
    external = {"url": url, "port": port, "cidrs": ["192.0.2.16/28"], "tokenSecret": token}
    values = {
        "sandbox": {"enabled": False, "external": external},
        "inference": {"enabled": False, "external": external},
        "trainer": {"weightTransfer": "upload"},
        "monitoring": {"traces": {"endpoint": f"{url}/v1", "port": port}},
    }
    policies = render(values).of_kind("NetworkPolicy")
    rules = [rule for item in policies for rule in item["spec"]["egress"]]
    for peer in ("192.0.2.16/28", "'monitoring'"):
        found = [rule["ports"] for rule in rules if peer in str(rule["to"])]
        assert found == [[{"protocol": "TCP", "port": opened}]] * len(found) != []


def test_a_sandbox_is_offered_to_the_pods_that_are_named() -> None:
    alone = {name: {"enabled": False} for name in ("inference", "judge", "reward", "worker")}
    peer = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "training"}},
        "podSelector": {"matchLabels": {"assay/network": "reward"}},
    }
    values = merge(
        alone,
        {
            "sandbox": {"clients": [peer]},
            "trainer": {"enabled": False},
            "tests": {"enabled": False},
        },
    )
    caller = Place("caller", "10.9.8.4", "training", {"assay/network": "reward"})
    other = Place("other", "10.9.8.3", "training", {"assay/network": "worker"})
    check(render(values))
    assert between(values, caller, other, *EVERYWHERE) == {Edge("caller", "sandbox", 8002)}


ENGINES: dict[str, Any] = {
    "inference": {
        "enabled": False,
        "external": {
            "url": "http://big-assay-inference.engines:8001",
            "tokenSecret": {"name": "big-tokens", "key": "inference"},
            "namespace": "engines",
            "podLabels": {"assay/network": "inference"},
        },
    },
    "trainer": {"weightTransfer": "upload"},
}


def test_engines_elsewhere_are_reached_by_trainer_and_worker_alone() -> None:
    rendered = render(ENGINES)
    check(rendered)
    there = Place("there", "10.9.8.2", "engines", {"assay/network": "inference"})
    beside = Place("beside", "10.9.8.1", NAMESPACE, {"assay/network": "inference"})
    assert between(ENGINES, there, beside) == {
        Edge(name, "there", 8001) for name in ("trainer", "worker")
    }
    found = {name: environment(pod) for name, pod in rendered.pods()}
    callers = [name for name, env in found.items() if "ASSAY_INFERENCE_URL" in env]
    assert sorted(callers) == ["assay-trainer", "assay-worker"]
    for name in callers:
        assert found[name]["ASSAY_INFERENCE_URL"] == "http://big-assay-inference.engines:8001"
        assert found[name]["ASSAY_INFERENCE_TOKEN"]["secretKeyRef"]["name"] == "big-tokens"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (at("sandbox.external.url", "http://a:1"), "set sandbox.enabled to false"),
        (
            {"sandbox": {"enabled": False, "external": {"url": "http://a:1"}}},
            "sandbox.external needs namespace with podLabels, or cidrs",
        ),
        (merge(SANDBOX, {"sandbox": {"external": {"podLabels": None}}}), "podLabels"),
        (merge(ENGINES, at("trainer.weightTransfer", "folder")), "weightTransfer to upload"),
        (
            {"ingress": {"enabled": True, "preset": "alb", "hosts": {"trainer": "a.b"}}},
            "ingress.preset: alb names nobody who may come in",
        ),
        (
            {"ingress": {"enabled": True, "kind": "HTTPRoute", "hosts": {"trainer": "a.b"}}},
            "needs ingress.gateway.name",
        ),
    ],
)
def test_what_cannot_be_reached_is_refused(values: Values, message: str) -> None:
    with pytest.raises((helm_python.HelmRenderError, helm_python.HelmValuesError), match=message):
        render(values)
