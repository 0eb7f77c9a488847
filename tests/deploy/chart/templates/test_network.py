"""Policies and the ingress as objects; test_policies.py has their combined effect."""

import pytest

from tests.support.chart.rendering import EXAMPLES, Manifest, Values, at, example, merge, render

OPEN = at("networkPolicy.enabled", False)
ROUTED = {"inference": {"replicas": 2}}
EXTERNAL = {
    "redis": {"enabled": False, "external": {"host": "r.example.com", "cidrs": ["10.0.0.9/32"]}}
}
INGRESS = {"ingress": {"enabled": True, "hosts": {"trainer": "assay.example.com"}}}
HOSTS = ("inference", "reward", "trainer")
ROUTE = {"ingress": {"kind": "HTTPRoute", "gateway": {"name": "front"}}}

#: For each template, values under which it renders nothing.
DISABLED: dict[str, list[Values]] = {
    "network/default-deny.yaml": [OPEN],
    "network/dns.yaml": [OPEN],
    **{
        f"network/{name}.yaml": [OPEN, at(f"{name}.enabled", False)]
        for name in ("sandbox", "judge", "reward", "inference", "trainer", "worker", "tests")
    },
    "network/redis.yaml": [OPEN, EXTERNAL],
    "network/engine.yaml": [{}, merge(ROUTED, OPEN)],
    "network/download.yaml": [{}, merge(example("values-a100.yaml"), OPEN)],
    "network/ingress.yaml": [{}, merge(INGRESS, ROUTE)],
    "network/mesh.yaml": [{}, merge(OPEN, at("mesh.kind", "istio"))],
    **{
        f"network/route-{name}.yaml": [{}, INGRESS, at("ingress.kind", "HTTPRoute")]
        for name in HOSTS
    },
}


@pytest.mark.parametrize(
    ("template", "values"), [(name, item) for name, items in DISABLED.items() for item in items]
)
def test_it_renders_nothing_when_disabled(template: str, values: Values) -> None:
    assert render(values).by_template[template] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_policy_is_about_this_release_and_both_directions(name: str) -> None:
    for policy in render(example(name)).of_kind("NetworkPolicy"):
        labels = policy["spec"]["podSelector"]["matchLabels"]
        assert labels["app.kubernetes.io/instance"] == "assay"
        if policy["metadata"]["name"] != "assay-dns":
            assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_pod_has_a_policy_of_its_own_or_none_at_all(name: str) -> None:
    rendered = render(example(name))
    subjects = {
        policy["spec"]["podSelector"]["matchLabels"].get("assay/network")
        for policy in rendered.of_kind("NetworkPolicy")
    }
    places = {pod["metadata"]["labels"]["assay/network"] for _, pod in rendered.pods()}
    assert places - subjects <= {"nowhere"}


@pytest.mark.parametrize(
    "values", [{}, ROUTED, at("trainer.weightTransfer", "direct")], ids=["one", "routed", "direct"]
)
def test_sender_and_receiver_name_the_same_edges(values: Values) -> None:
    """A policy wider than the real traffic is a door for the next mistake."""
    inward, outward = set(), set()
    for policy in render(values).of_kind("NetworkPolicy"):
        place = policy["spec"]["podSelector"]["matchLabels"].get("assay/network")
        for rule in policy["spec"].get("ingress") or ():
            inward |= {(other, place) for other in places(rule["from"])}
        for rule in policy["spec"].get("egress") or ():
            outward |= {(place, other) for other in places(rule["to"])}
    assert inward == outward
    assert ("reward", "sandbox") in inward


def places(peers: list[Manifest]) -> list[str]:
    """Return the components of this release named among peers."""
    labels = [peer.get("podSelector", {}).get("matchLabels", {}) for peer in peers]
    return [found["assay/network"] for found in labels if "assay/network" in found]


def test_the_sandboxs_policy_has_no_way_out() -> None:
    assert render().one("network/sandbox.yaml")["spec"]["egress"] == []


def test_default_deny_is_for_all_pods_and_allows_nothing() -> None:
    spec = render().one("network/default-deny.yaml")["spec"]
    assert spec["podSelector"]["matchLabels"] == {
        "app.kubernetes.io/name": "assay",
        "app.kubernetes.io/instance": "assay",
    }
    assert (spec["ingress"], spec["egress"]) == ([], [])


def test_an_ingress_has_rules_for_each_name_over_tls() -> None:
    hosts = {"hosts": {"reward": "reward.example.com"}, "tlsSecret": "tls", "className": "nginx"}
    spec = render(merge(INGRESS, {"ingress": hosts})).one("network/ingress.yaml")["spec"]
    found = {
        (rule["host"], path["backend"]["service"]["name"])
        for rule in spec["rules"]
        for path in rule["http"]["paths"]
    }
    assert found == {("assay.example.com", "assay-trainer"), ("reward.example.com", "assay-reward")}
    assert set(spec["tls"][0]["hosts"]) == {host for host, _ in found}
    assert spec["ingressClassName"] == "nginx"


def test_no_ingress_can_name_sandbox_or_judge() -> None:
    assert set(render().one("network/judge.yaml")["spec"]) >= {"ingress"}
    services = {item["metadata"]["name"]: item for item in render().of_kind("Service")}
    assert all(item["spec"]["type"] == "ClusterIP" for item in services.values())
