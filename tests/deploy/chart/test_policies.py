"""The network as the policies draw it: exactly these edges, and no way out of the sandbox."""

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.support.chart.reachability import Edge, Place, Port, edges, pods_of
from tests.support.chart.rendering import NAMESPACE, ROOT, Rendered, at, example, merge, render

SERVICES = {
    "inference": 8001,
    "sandbox": 8002,
    "judge": 8003,
    "reward": 8004,
    "trainer": 8005,
    "redis": 6379,
}
#: Every port that anything listens on, and those that a thief would try.
PORTS = [
    *(
        Port("TCP", number)
        for number in (22, 53, 80, 443, 4318, 6380, 8000, 8080, 10250, 29500, *SERVICES.values())
    ),
    *(Port("UDP", number) for number in (53, 123, 443, 8002)),
]
DNS = Place("dns", "10.96.0.10", "kube-system", {"k8s-app": "kube-dns"})
PROMETHEUS = Place("prometheus", "10.244.9.1", "monitoring", {"app": "prometheus"})
KEDA = Place("keda", "10.244.9.2", "keda", {"app": "keda-operator"})
GATEWAY = Place("gateway", "10.244.9.3", "ingress-nginx", {"app": "controller"})
STRANGER = Place("stranger", "10.244.9.4", "elsewhere", {"app": "stranger"})
NEIGHBOUR = Place("neighbour", "10.244.9.5", NAMESPACE, {"app": "neighbour"})
#: A pod that claims a place of this release without being of it.
OTHER_RELEASE = Place(
    "other-release",
    "10.244.9.6",
    NAMESPACE,
    {"app.kubernetes.io/instance": "other", "assay/network": "reward"},
)
METADATA = Place("metadata", "169.254.169.254")
CREDENTIALS = [
    METADATA,
    Place("metadata-azure-wire", "168.63.129.16"),
    Place("metadata-alibaba", "100.100.100.200"),
    Place("metadata-oracle", "192.0.0.192"),
    Place("metadata-ipv6", "fd00:ec2::254"),
    Place("metadata-mapped", "::ffff:169.254.169.254"),
    Place("metadata-nat64", "64:ff9b::a9fe:a9fe"),
    Place("metadata-ecs", "169.254.170.2"),
]
PRIVATE = [
    Place("node", "10.0.0.5"),
    Place("api-server", "10.96.0.1"),
    Place("lan", "192.168.1.10"),
    Place("docker", "172.17.0.1"),
    Place("loopback", "127.0.0.1"),
    Place("multicast", "224.0.0.251"),
    Place("link-local-ipv6", "fe80::1"),
]
INTERNET = [Place("internet", "1.1.1.1"), Place("internet-ipv6", "2606:4700::1111")]
PODS_ELSEWHERE = [DNS, PROMETHEUS, KEDA, GATEWAY, STRANGER, NEIGHBOUR, OTHER_RELEASE]
EVERYWHERE = [*PODS_ELSEWHERE, *CREDENTIALS, *PRIVATE, *INTERNET]

#: What there is by default, from component to component. `engine` is the one inference engine.
MESH = {
    Edge("trainer", "engine", 8001),
    Edge("trainer", "reward", 8004),
    Edge("trainer", "redis", 6379),
    Edge("worker", "engine", 8001),
    Edge("worker", "reward", 8004),
    Edge("worker", "redis", 6379),
    Edge("reward", "sandbox", 8002),
    Edge("reward", "judge", 8003),
    Edge("judge", "redis", 6379),
}
#: The pods of `helm test` that look whether the services answer; `closed` shares their place.
TESTERS = ("test-ready", "test-score", "test-closed")
TESTS = {
    Edge(tester, *service)
    for tester in TESTERS
    for service in (("engine", 8001), ("reward", 8004), ("trainer", 8005))
}
#: The one that pretends to be a sandbox: it may be called as one, and calls nobody.
AS_SANDBOX = {Edge("reward", "test-sandbox-closed", 8002)}
ASKS_NAMES = ("trainer", "worker", "reward", "judge", "engine", *TESTERS)


def within(rendered: Rendered) -> set[Edge]:
    pods = pods_of(rendered)
    return edges(rendered, pods, pods, PORTS)


def outward(rendered: Rendered) -> set[Edge]:
    return edges(rendered, pods_of(rendered), EVERYWHERE, PORTS)


def inward(rendered: Rendered) -> set[Edge]:
    return edges(rendered, EVERYWHERE, pods_of(rendered), PORTS)


def names(*senders: str) -> set[Edge]:
    return {Edge(sender, "dns", 53) for sender in senders}


def test_by_default_these_are_all_the_edges() -> None:
    rendered = render()
    assert within(rendered) == MESH | TESTS | AS_SANDBOX
    assert outward(rendered) == names(*ASKS_NAMES)
    assert inward(rendered) == set()


def test_the_page_says_which_edges_there_are() -> None:
    page = (ROOT / "docs" / "deploy_network.md").read_text()
    table = page.partition("| from | to | port |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\d+) \|$", table, re.MULTILINE)
    found = [Edge(sender, receiver, int(port)) for sender, receiver, port in rows]
    assert len(found) == len(MESH)
    assert {
        edge._replace(receiver=edge.receiver.replace("inference", "engine")) for edge in found
    } == MESH


def test_without_the_test_pods_reward_alone_reaches_sandbox_and_judge() -> None:
    rendered = render(at("tests.enabled", False))
    assert within(rendered) == MESH
    into = {edge for edge in within(rendered) if edge.receiver in ("sandbox", "judge")}
    assert {edge.sender for edge in into} == {"reward"}


VARIANTS: list[dict[str, Any]] = [
    {},
    {"sandbox": {"isolation": "gvisor"}},
    {"sandbox": {"isolation": "fallback"}},
    {"sandbox": {"seccompInstaller": {"enabled": True}}},
    {"judge": {"egress": {"internet": True}}},
    {"monitoring": {"scrape": True, "traces": {"endpoint": "http://collector:4318"}}},
    {"networkPolicy": {"clients": [{"namespaceSelector": {}}]}},
    {"networkPolicy": {"dns": {"address": "169.254.20.10"}}},
    {"trainer": {"weightTransfer": "direct"}},
    {"trainer": {"kind": "Job", "nodes": 2, "run": {"file": {"name": "a"}}}},
    example("values-a100.yaml"),
    example("values-kind-cpu.yaml"),
    example("values-production.yaml"),
    merge(example("values-a100.yaml"), example("values-production.yaml")),
]


@pytest.mark.parametrize("values", VARIANTS, ids=range(len(VARIANTS)))
def test_nothing_can_be_reached_from_a_sandbox(values: dict[str, Any]) -> None:
    rendered = render(values)
    pods = pods_of(rendered)
    sandboxes = [pod for pod in pods if pod.labels["assay/network"] == "sandbox"]
    assert [pod.name for pod in sandboxes] == ["sandbox", "test-sandbox-closed"]
    assert edges(rendered, sandboxes, [*pods, *EVERYWHERE], PORTS) == set()


@pytest.mark.parametrize("values", VARIANTS, ids=range(len(VARIANTS)))
def test_no_pod_reaches_where_clouds_keep_credentials_or_a_private_address(
    values: dict[str, Any],
) -> None:
    rendered = render(values)
    assert edges(rendered, pods_of(rendered), [*CREDENTIALS, *PRIVATE], PORTS) == set()


@pytest.mark.parametrize("values", VARIANTS, ids=range(len(VARIANTS)))
def test_every_pod_has_a_place_in_the_network(values: dict[str, Any]) -> None:
    """A pod without a policy could look up names, or would be left to the default alone."""
    places = {"engine", "nowhere"} | {
        *("inference", "sandbox", "judge", "reward", "trainer", "worker"),
        *("redis", "download", "test"),
    }
    assert {pod.labels["assay/network"] for pod in pods_of(render(values))} <= places


def test_several_engines_are_reached_through_the_router_alone() -> None:
    rendered = render({"inference": {"replicas": 3}, "tests": {"enabled": False}})
    through = {
        edge._replace(receiver="router") if edge.receiver == "engine" else edge for edge in MESH
    }
    assert within(rendered) == through | {Edge("router", "engine", 8001)}
    assert outward(rendered) == names("trainer", "worker", "reward", "judge", "router")


def test_a_direct_transfer_opens_ports_between_trainer_and_engine_alone() -> None:
    more = within(render(at("trainer.weightTransfer", "direct"))) - within(render())
    assert {(edge.sender, edge.receiver) for edge in more} == {
        ("trainer", "engine"),
        ("engine", "trainer"),
    }
    assert Edge("engine", "trainer", 29500) in more
    assert Edge("engine", "trainer", 22) not in more


def test_names_are_looked_up_at_the_port_where_the_pods_of_the_server_listen() -> None:
    label = {"key": "dns.operator.openshift.io/daemonset-dns", "value": "default"}
    dns = {"namespace": "openshift-dns", "podLabel": label, "port": 5353}
    rendered = render({"networkPolicy": {"dns": {**dns, "address": "169.254.20.10"}}})
    places = [
        Place("server", "10.128.0.3", "openshift-dns", {label["key"]: label["value"]}),
        Place("cache", "169.254.20.10"),
    ]
    asking = [pod for pod in pods_of(rendered) if pod.name in ASKS_NAMES]
    assert asking
    for protocol in ("UDP", "TCP"):
        ports = [Port(protocol, number) for number in (53, 5353)]
        assert edges(rendered, asking, places, ports) == {
            edge
            for pod in asking
            for edge in (Edge(pod.name, "server", 5353), Edge(pod.name, "cache", 53))
        }


def test_the_nodes_of_a_run_reach_each_other_and_nothing_more() -> None:
    def between(nodes: int) -> set[Edge]:
        run = {"kind": "Job", "nodes": nodes, "run": {"file": {"name": "a"}}}
        rendered = render({"trainer": run})
        pods = pods_of(rendered)
        (first,) = (pod for pod in pods if pod.labels["assay/network"] == "trainer")
        second = Place("run-second", "10.244.7.1", NAMESPACE, first.labels)
        pods = [replace(pod, name="run-run") if pod is first else pod for pod in pods]
        return edges(rendered, [*pods, second], [*pods, second], PORTS)

    both = ({"run-run", "run-second"},)
    joined = {edge for edge in between(2) if {edge.sender, edge.receiver} in both}
    assert {edge.port for edge in joined} == {
        port.number for port in PORTS if port.protocol == "TCP" and port.number >= 1024
    }
    assert between(2) - joined == between(1)


def test_a_judge_reaches_its_provider_and_no_private_address() -> None:
    rendered = render({"judge": {"egress": {"internet": True}}})
    assert outward(rendered) == names(*ASKS_NAMES) | {
        Edge("judge", place.name, 443) for place in INTERNET
    }
    assert within(rendered) == within(render())


def test_a_judge_reaches_a_model_in_the_cluster_where_it_is_named() -> None:
    vllm = Place("vllm", "10.244.8.1", "models", {"app": "vllm"})
    others = [
        Place("other", "10.244.8.2", "models", {"app": "other"}),
        Place("elsewhere", "10.244.8.3", "elsewhere", {"app": "vllm"}),
    ]
    pods = [{"namespace": "models", "pods": {"app": "vllm"}, "port": 8000}]
    rendered = render({"judge": {"egress": {"pods": pods}}})
    found = edges(rendered, pods_of(rendered), [vllm, *others], PORTS)
    assert found == {Edge("judge", "vllm", 8000)}


def test_a_judge_with_state_of_its_own_does_not_reach_redis() -> None:
    rendered = render({"judge": {"shared": "process", "replicas": 1}, "tests": {"enabled": False}})
    assert within(rendered) == MESH - {Edge("judge", "redis", 6379)}


def test_prometheus_reads_every_service_and_reaches_no_redis() -> None:
    rendered = render({"inference": {"replicas": 2}, "monitoring": {"scrape": True}})
    assert {edge for edge in inward(rendered) if not edge.receiver.startswith("test-")} == {
        Edge("prometheus", receiver, port)
        for receiver, port in (
            *(("router", 8001), ("engine", 8001), ("sandbox", 8002), ("judge", 8003)),
            *(("reward", 8004), ("trainer", 8005)),
        )
    }


def test_keda_alone_of_other_namespaces_reaches_the_queue() -> None:
    rendered = render({"worker": {"autoscaling": {"enabled": True, "by": "queue"}}})
    assert inward(rendered) == {Edge("keda", "redis", 6379)}


def test_an_ingress_lets_its_controller_to_what_has_a_name() -> None:
    hosts = {"trainer": "assay.example.com"}
    rendered = render({"ingress": {"enabled": True, "hosts": hosts}})
    assert inward(rendered) == {Edge("gateway", "trainer", 8005)}


def test_clients_reach_the_gateway_services_and_no_others() -> None:
    client = {"podSelector": {"matchLabels": {"app": "neighbour"}}}
    rendered = render({"networkPolicy": {"clients": [client]}})
    assert inward(rendered) == {
        Edge("neighbour", "engine", 8001),
        Edge("neighbour", "reward", 8004),
        Edge("neighbour", "trainer", 8005),
    }


def test_an_external_redis_is_reached_at_its_addresses() -> None:
    external = {"host": "redis.example.com", "port": 6380, "cidrs": ["10.20.30.0/28"]}
    rendered = render({"redis": {"enabled": False, "external": external}})
    places = [Place("redis", "10.20.30.4"), Place("beside", "10.20.30.16")]
    assert edges(rendered, pods_of(rendered), places, PORTS) == {
        Edge(name, "redis", 6380) for name in ("trainer", "worker", "judge")
    }


def test_only_the_download_of_a_model_reaches_a_hub() -> None:
    rendered = render(example("values-a100.yaml"))
    into = {edge.sender for edge in outward(rendered) if edge.receiver.startswith("internet")}
    (download,) = into
    assert download.startswith("download-")


def test_traces_go_to_the_collector_from_all_but_the_sandbox() -> None:
    traces = {"endpoint": "http://collector.monitoring:4318"}
    rendered = render({"monitoring": {"traces": traces}})
    found = {edge for edge in outward(rendered) if edge.port == 4318}
    assert found == {
        Edge(name, "prometheus", 4318)  # any pod of that namespace stands for the collector
        for name in ("trainer", "worker", "reward", "judge", "engine")
    }


def test_without_policies_everything_is_open() -> None:
    """The calculation finds open doors: else all of the above would show nothing."""
    rendered = render(at("networkPolicy.enabled", False))
    assert rendered.of_kind("NetworkPolicy") == []
    assert Edge("sandbox", "metadata", 80) in outward(rendered)
    assert Edge("stranger", "sandbox", 8002) in inward(rendered)
    assert Edge("sandbox", "redis", 6379) in within(rendered)


def test_one_policy_that_is_left_out_is_seen() -> None:
    rendered = render()
    kept = {
        path: items
        for path, items in rendered.by_template.items()
        if path not in ("network/default-deny.yaml", "network/sandbox.yaml")
    }
    open_again = Rendered(kept, "")
    assert Edge("sandbox", "metadata", 80) in outward(open_again)
    closed = {
        **kept,
        "network/default-deny.yaml": rendered.by_template["network/default-deny.yaml"],
    }
    assert not [edge for edge in outward(Rendered(closed, "")) if edge.sender == "sandbox"]
