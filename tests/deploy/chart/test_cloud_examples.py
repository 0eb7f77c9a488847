"""The examples of EKS, GKE and AKS: valid, reached, closed, and started from empty pools."""

import json
from typing import Any

import pytest
import yaml

from tests.deploy.chart.test_policies import CREDENTIALS, EVERYWHERE, INTERNET, PORTS, PRIVATE
from tests.support.chart.kubernetes_schemas import check_object
from tests.support.chart.pod_security import beyond_restricted
from tests.support.chart.reachability import Edge, Place, edges, pods_of
from tests.support.chart.rendering import (
    EIGHT_VERSIONS,
    ROOT,
    Manifest,
    Rendered,
    check,
    container,
    environment,
    example,
    merge,
    render,
)

CLOUDS = ("eks", "gke", "aks")
#: Labels of pools and machine types: an autoscaler knows them before there is a node.
#: nvidia.com/gpu.product comes with the driver, once a node has joined.
KNOWN_BEFORE = {
    "eks": ("karpenter.sh/", "karpenter.k8s.aws/", "kubernetes.io/arch", "node.kubernetes.io/"),
    "gke": ("cloud.google.com/", "kubernetes.io/arch", "node.kubernetes.io/"),
    "aks": ("kubernetes.azure.com/", "kubernetes.io/arch", "node.kubernetes.io/"),
}
#: Taints of the clouds' pools, as each cloud's pages set them.
GPU_TAINTS = {
    "eks": {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"},
    "gke": {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
    "aks": {"key": "sku", "value": "gpu", "effect": "NoSchedule"},
}
IDENTITY = {
    "eks": "eks.amazonaws.com/role-arn",
    "gke": "iam.gke.io/gcp-service-account",
    "aks": "azure.workload.identity/client-id",
}
#: A pod or address in front of the services, as it reaches them.
BALANCERS = {
    "eks": Place("alb", "10.0.1.20"),
    "gke": Place("gclb", "130.211.1.5"),
    "aks": Place("nginx", "10.244.9.9", "app-routing-system", {"app": "nginx"}),
}
SCRAPERS = {"eks": "monitoring", "gke": "gmp-system", "aks": "kube-system"}
#: Addresses outside of the cluster that an example opens, and for whom.
OPENED = {
    "eks": {Edge("trainer", "endpoints", 443)},
    "gke": {Edge("trainer", "wi", 988), Edge("trainer", "metadata", 80)},
    "aks": {Edge("trainer", "endpoints", 443)},
}
ENDPOINTS = {
    "eks": Place("endpoints", "10.0.100.4"),
    "gke": Place("wi", "169.254.169.252"),
    "aks": Place("endpoints", "10.40.1.4"),
}
REDIS = {"eks": ("10.0.70.4", 6379), "gke": ("10.30.0.3", 6378), "aks": ("10.40.0.4", 6380)}


def values(cloud: str) -> dict[str, Any]:
    return example(f"values-{cloud}.yaml")


def rendered(cloud: str) -> Rendered:
    return render(values(cloud))


def gpu_pods(found: Rendered) -> list[Manifest]:
    limits = [(pod, container(pod)["resources"].get("limits", {})) for _, pod in found.pods()]
    return [pod for pod, limit in limits if "nvidia.com/gpu" in limit]


@pytest.mark.parametrize("operator", [True, False], ids=["operator", "no operator"])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_it_is_valid_in_eight_versions_with_the_operator_and_without(
    cloud: str, operator: bool
) -> None:
    switch = {"enabled": operator}
    monitoring = {"scrape": True, "serviceMonitor": switch, "rules": switch}
    found = render(merge(values(cloud), {"monitoring": monitoring}))
    check(found, EIGHT_VERSIONS)
    kinds = {item["kind"] for item in found.objects}
    assert ({"ServiceMonitor", "PrometheusRule"} <= kinds) == operator
    assert "monitoring.coreos.com" in json.dumps(found.objects) or not operator


@pytest.mark.parametrize("cloud", CLOUDS)
def test_pods_with_a_gpu_start_from_an_empty_pool(cloud: str) -> None:
    pods = gpu_pods(rendered(cloud))
    assert len(pods) == 2, "engine and trainer"
    for pod in pods:
        labels = pod["spec"]["nodeSelector"]
        assert labels
        assert all(label.startswith(KNOWN_BEFORE[cloud]) for label in labels), labels
        assert any(tolerates(one, GPU_TAINTS[cloud]) for one in pod["spec"]["tolerations"])
        assert "affinity" not in pod["spec"]


def tolerates(toleration: dict[str, str], taint: dict[str, str]) -> bool:
    if toleration.get("key") != taint["key"] or toleration.get("effect") != taint["effect"]:
        return False
    exists = toleration.get("operator", "Equal") == "Exists"
    return exists or toleration.get("value") == taint["value"]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_image_runs_on_x86_and_nodes_have_room(cloud: str) -> None:
    for name, pod in rendered(cloud).pods():
        assert pod["spec"].get("nodeSelector"), f"{name} may come to a Graviton or Ampere node"
    for pod in gpu_pods(rendered(cloud)):
        resources = container(pod)["resources"]
        assert "ephemeral-storage" in resources["requests"]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_restricted_namespace_takes_all_but_the_user_namespaces_of_the_sandbox(
    cloud: str,
) -> None:
    broken = {name for name, pod in rendered(cloud).pods() if beyond_restricted(pod)}
    assert broken == (set() if cloud == "gke" else {"assay-sandbox", "assay-seccomp"})


@pytest.mark.parametrize("cloud", CLOUDS)
def test_nothing_holds_a_gpu_at_rest(cloud: str) -> None:
    found = rendered(cloud)
    engines = [one for one in found.of_kind("ScaledObject") if "engine" in json.dumps(one["spec"])]
    (scaled,) = engines
    assert scaled["spec"]["minReplicaCount"] == 0
    (trainer,) = found.of_kind("StatefulSet")
    assert trainer["spec"]["replicas"] == 0


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_trainers_account_is_the_clouds(cloud: str) -> None:
    found = rendered(cloud)
    (trainer,) = [pod for name, pod in found.pods() if name == "assay-trainer"]
    account = trainer["spec"]["serviceAccountName"]
    (item,) = [
        item for item in found.of_kind("ServiceAccount") if item["metadata"]["name"] == account
    ]
    assert IDENTITY[cloud] in item["metadata"]["annotations"]
    if cloud == "aks":
        assert trainer["metadata"]["labels"]["azure.workload.identity/use"] == "true"
    marked = [one for one in found.of_kind("ServiceAccount") if IDENTITY[cloud] in json.dumps(one)]
    assert "assay-sandbox" not in {one["metadata"]["name"] for one in marked}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_redis_is_asked_by_tls_at_its_address(cloud: str) -> None:
    found = rendered(cloud)
    address, port = REDIS[cloud]
    users = edges(
        found, pods_of(found), [Place("redis", address)], [*PORTS, PORTS[0]._replace(number=port)]
    )
    reached = {edge.sender for edge in users if edge.port == port}
    assert {"trainer", "worker", "judge"} <= reached
    assert "sandbox" not in reached
    for name, pod in found.pods():
        url = environment(pod).get("ASSAY_REDIS_URL")
        if url:
            assert str(url).startswith("rediss://"), name
    assert found.of_kind("StatefulSet")[0]["metadata"]["name"] == "assay-trainer", "no Redis here"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_sandbox_reaches_nobody_and_each_opened_address_is_named(cloud: str) -> None:
    found = rendered(cloud)
    pods = pods_of(found)
    sandboxes = [pod for pod in pods if pod.labels["assay/network"] == "sandbox"]
    assert sandboxes
    ports = [*PORTS, PORTS[0]._replace(number=988)]
    places = [*EVERYWHERE, ENDPOINTS[cloud], Place("redis", REDIS[cloud][0])]
    assert edges(found, sandboxes, [*pods, *places], ports) == set()
    outside = [*CREDENTIALS, *PRIVATE, ENDPOINTS[cloud]]
    opened = edges(found, pods, outside, ports)
    redis = {edge for edge in opened if cloud == "eks" and edge.port == REDIS[cloud][1]}
    assert opened - redis == OPENED[cloud]
    public = {edge.sender for edge in edges(found, pods, INTERNET, ports)}
    assert all(sender.startswith("download") for sender in public)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_its_load_balancer_reaches_what_has_a_name_and_nothing_more(cloud: str) -> None:
    found = rendered(cloud)
    into = edges(found, [BALANCERS[cloud]], pods_of(found), PORTS)
    reached = {(edge.receiver, edge.port) for edge in into}
    assert reached == {("trainer", 8005), ("reward", 8004)}
    stranger = Place("stranger", "10.244.9.4", "elsewhere", {"app": "stranger"})
    assert edges(found, [stranger], pods_of(found), PORTS) == set()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_its_prometheus_reads_every_service(cloud: str) -> None:
    found = rendered(cloud)
    scraper = Place("scraper", "10.244.9.7", SCRAPERS[cloud], {"app": "scraper"})
    reached = {edge.receiver for edge in edges(found, [scraper], pods_of(found), PORTS)}
    assert {"reward", "judge", "sandbox", "trainer", "engine"} <= reached


@pytest.mark.parametrize("cloud", CLOUDS)
def test_claims_are_of_a_class_that_many_nodes_write(cloud: str) -> None:
    claims = rendered(cloud).of_kind("PersistentVolumeClaim")
    page = (ROOT / "docs" / "deploy_platforms.md").read_text()
    text = page.partition("```yaml\n# models.yaml")[2].partition("\n")[2].partition("```")[0]
    models = yaml.safe_load(text)
    assert check_object(models, EIGHT_VERSIONS[0]) is None
    mounted = f'"claimName": "{models["metadata"]["name"]}"'
    assert all(mounted in json.dumps(pod) for pod in gpu_pods(rendered(cloud)))
    for claim in [*claims, models]:
        assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
        assert claim["spec"]["storageClassName"] in ("efs", "zonal-rwx", "azurefile-nfs")
