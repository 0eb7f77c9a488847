"""Service meshes: the control plane is reached, and the tunnel opens where the application does."""

from typing import Any

import pytest

from tests.deploy.chart.test_policies import (
    CREDENTIALS,
    EVERYWHERE,
    PORTS,
    PRIVATE,
    inward,
    outward,
    within,
)
from tests.support.chart.reachability import Edge, Place, Port, edges, pods_of
from tests.support.chart.rendering import Manifest, Values, check, example, merge, render

MESHES = ("istio", "ambient", "linkerd")
TUNNELS = {"ambient": 15008, "linkerd": 4143}
ISTIOD = Place("istiod", "10.7.0.1", "istio-system", {"app": "istiod"})
LINKERD = Place(
    "linkerd", "10.7.0.2", "linkerd", {"linkerd.io/control-plane-component": "identity"}
)
BESIDE = [
    Place("other", "10.7.0.3", "istio-system", {"app": "kiali"}),
    Place("web", "10.7.0.4", "linkerd", {"app": "web"}),
]
ZTUNNEL = Place("ztunnel", "169.254.7.127")
CONTROL = {"istio": (ISTIOD, {15012}), "linkerd": (LINKERD, {8080, 8086, 8090})}
WORKLOADS = {"engine", "router", "judge", "reward", "trainer", "worker", "redis"}
MORE = [Port("TCP", n) for n in (4143, 4191, 8086, 8090, 15008, 15010, 15012, 15017, 15020)]
ALL_PORTS = [*PORTS, *MORE]


def mesh(kind: str, **more: object) -> dict[str, Any]:
    return {"mesh": {"kind": kind, **more}, "inference": {"replicas": 2}}


@pytest.mark.parametrize("kind", MESHES)
def test_it_is_valid(kind: str) -> None:
    check(render(mesh(kind)))
    both = example("values-a100.yaml", "values-production.yaml")
    check(render(merge(both, mesh(kind, nativeSidecars=False))))


@pytest.mark.parametrize("kind", ["istio", "linkerd"])
def test_seven_of_seven_workloads_reach_their_control_plane(kind: str) -> None:
    rendered = render(mesh(kind))
    plane, ports = CONTROL[kind]
    found = edges(rendered, pods_of(rendered), [ISTIOD, LINKERD, *BESIDE], ALL_PORTS)
    members = {edge.sender for edge in found if not edge.sender.startswith("test-")}
    assert members == WORKLOADS
    assert {(edge.receiver, edge.port) for edge in found} == {(plane.name, n) for n in ports}
    names = edges(rendered, pods_of(rendered), EVERYWHERE, [Port("UDP", 53)])
    assert {e.sender for e in names if not e.sender.startswith("test-")} == WORKLOADS


def test_the_control_plane_may_have_another_namespace() -> None:
    rendered = render(mesh("istio", namespace="mesh-system"))
    moved = Place("istiod", "10.7.0.5", "mesh-system", {"app": "istiod"})
    found = edges(rendered, pods_of(rendered), [moved], ALL_PORTS)
    assert {edge.sender for edge in found} >= WORKLOADS
    assert edges(rendered, pods_of(rendered), [ISTIOD], ALL_PORTS) == set()


def test_an_ambient_mesh_needs_no_way_from_a_pod_and_lets_probes_in() -> None:
    rendered = render(mesh("ambient"))
    assert edges(rendered, pods_of(rendered), [ISTIOD], ALL_PORTS) == set()
    probed = edges(rendered, [ZTUNNEL], pods_of(rendered), ALL_PORTS)
    ports = {"engine": 8001, "router": 8001, "judge": 8003, "reward": 8004, "trainer": 8005}
    assert {Edge("ztunnel", pod, port) for pod, port in ports.items()} <= probed
    assert {edge.port for edge in probed} == {8001, 8003, 8004, 8005, 6379}
    assert not [edge for edge in probed if "sandbox" in edge.receiver]


@pytest.mark.parametrize("kind", MESHES)
def test_the_tunnel_is_open_only_where_the_application_is(kind: str) -> None:
    """From any pod here or anywhere to any pod; and no application's port is opened by a mesh."""
    values = merge(mesh(kind), {"monitoring": {"scrape": True}})
    plain = merge(values, {"mesh": {"kind": "none"}})
    tunnel = TUNNELS.get(kind)
    for found, before in ((within, plain), (inward, plain)):
        with_mesh, without = found(render(values)), found(render(before))
        assert with_mesh == without, "the application's ports"
    rendered = render(values)
    pods = pods_of(rendered)
    tunnelled = edges(rendered, [*pods, *EVERYWHERE], [*pods, *EVERYWHERE], MORE)
    tunnelled = {edge for edge in tunnelled if edge.receiver not in {p.name for p in EVERYWHERE}}
    applications = edges(rendered, [*pods, *EVERYWHERE], pods, PORTS)
    expected = {
        Edge(edge.sender, edge.receiver, tunnel)
        for edge in applications
        if tunnel and "sandbox" not in edge.receiver
    }
    assert tunnelled == expected


@pytest.mark.parametrize("kind", MESHES)
def test_a_sandbox_stays_closed_and_out_of_the_mesh(kind: str) -> None:
    rendered = render(mesh(kind))
    pods = pods_of(rendered)
    sandboxes = [pod for pod in pods if pod.labels["assay/network"] == "sandbox"]
    others = [*pods, *EVERYWHERE, ISTIOD, LINKERD, *BESIDE, ZTUNNEL]
    assert edges(rendered, sandboxes, others, ALL_PORTS) == set()
    callers = edges(rendered, others, sandboxes, ALL_PORTS)
    assert {(edge.sender, edge.port) for edge in callers} == {("reward", 8002)}
    found = dict(rendered.pods())
    assert joins(found["assay-sandbox"], kind) is False
    assert joins(found["assay-reward"], kind) is True


@pytest.mark.parametrize("kind", MESHES)
def test_no_pod_reaches_private_addresses_or_credentials(kind: str) -> None:
    rendered = render(mesh(kind))
    assert edges(rendered, pods_of(rendered), [*CREDENTIALS, *PRIVATE], ALL_PORTS) == set()


def test_without_a_mesh_nothing_is_open_or_marked() -> None:
    rendered = render({"inference": {"replicas": 2}})
    pods = pods_of(rendered)
    assert edges(rendered, [*pods, *EVERYWHERE, ISTIOD, LINKERD, ZTUNNEL], pods, MORE) == set()
    assert edges(rendered, pods, [ISTIOD, LINKERD], ALL_PORTS) == set()
    assert not [edge for edge in outward(rendered) if edge.port != 53]
    text = str(list(rendered.pods()))
    assert "istio.io" not in text
    assert "linkerd.io" not in text


def joins(pod: Manifest, kind: str) -> bool | None:
    """Return True if the pod asks for the mesh, False if it declines, None if it says nothing."""
    labels, notes = pod["metadata"]["labels"], pod["metadata"].get("annotations", {})
    said = {
        "istio": labels.get("sidecar.istio.io/inject"),
        "ambient": labels.get("istio.io/dataplane-mode"),
        "linkerd": notes.get("linkerd.io/inject"),
    }[kind]
    return None if said is None else said in ("true", "ambient", "enabled")


def ends_natively(pod: Manifest) -> bool:
    notes = pod["metadata"].get("annotations", {})
    return "true" in (
        notes.get("sidecar.istio.io/nativeSidecar"),
        notes.get("config.beta.linkerd.io/proxy-enable-native-sidecar"),
    )


JOB: Values = {"trainer": {"kind": "Job", "run": {"name": "first", "file": {"name": "a"}}}}
NODES = merge(JOB, {"trainer": {"nodes": 2}})


@pytest.mark.parametrize("kind", MESHES)
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("run", [JOB, NODES], ids=["Job", "JobSet"])
def test_a_pod_that_has_to_end_has_no_sidecar_that_outlives_it(
    kind: str, native: bool, run: Values
) -> None:
    values = merge(merge(example("values-a100.yaml"), run), mesh(kind, nativeSidecars=native))
    endings = {}
    for name, pod in render(values).pods():
        if pod["spec"].get("restartPolicy", "Always") != "Always":
            endings[name] = pod
    names = {name.removeprefix("assay-").rpartition("-")[0] for name in endings}
    assert names == {"run-first", "download", "test", "test-sandbox"}
    for name, pod in endings.items():
        joined = joins(pod, kind)
        assert joined is not None, name
        assert not joined or kind == "ambient" or ends_natively(pod), name
    (training,) = (pod for name, pod in endings.items() if "-run-" in name)
    assert joins(training, kind) is (native or kind == "ambient")
    assert joins(endings["assay-test-score"], kind) is (native or kind == "ambient")
    for name in ("assay-test-closed", "assay-test-sandbox-closed"):
        assert joins(endings[name], kind) is False, "a sidecar takes every connection"
