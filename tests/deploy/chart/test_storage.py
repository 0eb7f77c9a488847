"""Volumes: access modes, ways of weights, model caches, and the download before all else."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import helm_python
import pytest

from tests.conftest import wait_until
from tests.deploy.chart.test_policies import EVERYWHERE, PORTS, outward
from tests.support.chart.pod_security import beyond_restricted
from tests.support.chart.reachability import Edge, Place, edges, pods_of
from tests.support.chart.rendering import (
    CHART,
    Manifest,
    Values,
    at,
    check,
    container,
    environment,
    example,
    merge,
    render,
)
from tests.support.hub import LocalHub

ONCE = {"accessMode": "ReadWriteOnce"}
JOB: Values = {"trainer": {"kind": "Job", "run": {"name": "first", "file": {"name": "a"}}}}
UPLOAD = at("trainer.weightTransfer", "upload")
MODEL: dict[str, Any] = {
    "model": {"folder": "qwen"},
    "modelDownload": {"enabled": True, "repository": "owner/qwen", "folder": "qwen"},
}
CLAIM: Values = {"inference": {**MODEL, "modelCache": {"existingClaim": "models"}}}
POD: Values = {"inference": {**MODEL, "modelCache": {"kind": "pod"}}}
HOLDERS = ("assay-engine", "assay-router", "assay-trainer")


def mounts(pod: Manifest) -> dict[str, str]:
    """Return the volume of each folder of a pod's container."""
    return {mount["mountPath"]: mount["name"] for mount in container(pod)["volumeMounts"]}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"trainer": {"runs": ONCE}}, "trainer.runs.accessMode: .* 2 pods share"),
        ({"inference": {"modelCache": ONCE}}, "inference.modelCache.accessMode: .* 2 pods"),
        (
            merge(example("values-a100.yaml"), {"trainer": {"runs": ONCE}}),
            "trainer.runs.accessMode: .* 4 pods share",
        ),
        (
            merge(example("values-a100.yaml"), {"inference": {"modelCache": ONCE}}),
            "inference.modelCache.accessMode: .* 5 pods share",
        ),
        (merge(UPLOAD, {"inference": {"modelCache": ONCE}}), "inference.modelCache.accessMode"),
        (
            {"trainer": {"enabled": False}, "inference": {"replicas": 2, "modelCache": ONCE}},
            "3 pods share",
        ),
    ],
)
def test_a_volume_of_one_node_is_refused_to_pods_on_several(values: Values, message: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match=message):
        render(values)


@pytest.mark.parametrize(
    "values",
    [
        merge(UPLOAD, {"trainer": {"runs": ONCE}}),
        {"trainer": {"enabled": False}, "inference": {"modelCache": ONCE}},
        {"inference": {"enabled": False, "modelCache": ONCE}, "trainer": {"runs": ONCE}},
        {"oneNode": True, "inference": {"modelCache": ONCE}, "trainer": {"runs": ONCE}},
    ],
    ids=["upload", "engine alone", "trainer alone", "one node"],
)
def test_a_volume_of_one_node_is_given_to_one_pod_or_to_one_node(values: Values) -> None:
    check(render(values))


def test_with_one_node_all_that_share_a_volume_follow_the_first() -> None:
    values = merge(example("values-a100.yaml"), {"oneNode": True})
    own: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    rendered = render(merge(values, at("trainer.affinity", own)))
    found = dict(rendered.pods())
    sharing = {name for name, pod in found.items() if "claim" in str(pod["spec"].get("volumes"))}
    assert len(sharing) == 4
    for name, pod in found.items():
        labels, affinity = pod["metadata"]["labels"], pod["spec"].get("affinity", {})
        assert ("podAffinity" in affinity) is (name in sharing), name
        if name in sharing:
            (term,) = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            assert term["topologyKey"] == "kubernetes.io/hostname"
            assert term["labelSelector"]["matchLabels"].items() <= labels.items(), name
    assert found["assay-trainer"]["spec"]["affinity"].keys() == {"nodeAffinity", "podAffinity"}
    assert "affinity" not in str(list(render(example("values-a100.yaml")).pods()))


@pytest.mark.parametrize("replicas", [1, 3])
def test_uploads_need_no_volume_of_runs_in_engine_and_router(replicas: int) -> None:
    rendered = render(merge(UPLOAD, {"inference": {"replicas": replicas, "uploadsGi": 40}}))
    check(rendered)
    found = dict(rendered.pods())
    served = [found[name] for name in ("assay-engine", "assay-router") if name in found]
    assert len(served) == (1 if replicas == 1 else 2)
    for pod in served:
        assert "assay-runs" not in str(pod["spec"]["volumes"])
        assert "/var/lib/assay/runs" not in mounts(pod)
        assert mounts(pod)["/var/lib/assay/uploads"] == "uploads"
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        assert volumes["uploads"]["emptyDir"] == {"sizeLimit": "40Gi"}
        variables = environment(pod)
        assert variables["ASSAY_INFERENCE_UPLOAD_FOLDER"] == "/var/lib/assay/uploads"
        assert variables["ASSAY_INFERENCE_UPLOAD_MAX_BYTES"] == str(40 * 2**30)
        assert variables["ASSAY_WEIGHT_TRANSFER"] == "upload"
    assert environment(found["assay-trainer"])["ASSAY_WEIGHT_TRANSFER"] == "upload"
    assert mounts(found["assay-trainer"])["/var/lib/assay/runs"] == "runs"
    before = render({"inference": {"replicas": replicas}})
    assert "/var/lib/assay/runs" in mounts(dict(before.pods())["assay-engine"])


@pytest.mark.parametrize("run", [{}, JOB], ids=["StatefulSet", "Job"])
def test_each_kind_of_cache_is_the_same_in_all_that_read_models(run: Values) -> None:
    kinds: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
        "claim": ({}, {"persistentVolumeClaim": {"claimName": "assay-models"}}),
        "node": (
            {"nodePath": "/mnt/models"},
            {"hostPath": {"path": "/mnt/models", "type": "Directory"}},
        ),
        "pod": ({"size": "30Gi"}, {"emptyDir": {"sizeLimit": "30Gi"}}),
        "none": ({}, None),
    }
    for kind, (cache, expected) in kinds.items():
        values = merge(run, {"inference": {"replicas": 2, "modelCache": {"kind": kind, **cache}}})
        if kind == "pod":
            values = merge(values, {"inference": MODEL})
        rendered = render(values)
        check(rendered)
        pods = dict(rendered.pods())
        trainer = "assay-run-first" if run else "assay-trainer"
        for name in ("assay-engine", "assay-router", trainer):
            pod = next(pod for owner, pod in pods.items() if owner.startswith(name))
            volumes = {volume.pop("name"): volume for volume in pod["spec"]["volumes"]}
            assert volumes.get("models") == expected, (kind, name)
            assert ("/var/lib/assay/models" in mounts(pod)) is (expected is not None)
            broken = {"hostPath", "volumes"} if kind == "node" else set()
            pod["spec"]["volumes"] = list(volumes.values())
            assert beyond_restricted(pod) == broken
        claims = {item["metadata"]["name"] for item in rendered.of_kind("PersistentVolumeClaim")}
        assert ("assay-models" in claims) is (kind == "claim")


def test_what_lies_on_a_nodes_disk_is_asked_for() -> None:
    values = merge(merge(POD, UPLOAD), {"inference": {"modelCache": {"size": "30Gi"}}})
    more = {"inference": {"scratch": "2Gi", "uploadsGi": 40}, "trainer": {"scratch": "1Gi"}}
    pods = dict(render(merge(values, more)).pods())

    def asked(name: str) -> str:
        return str(container(pods[name])["resources"]["requests"]["ephemeral-storage"])

    assert asked("assay-engine") == f"{(2 * 2 + 30 + 40) * 1024}Mi"
    assert asked("assay-trainer") == f"{(2 * 1 + 30) * 1024}Mi"


def test_a_cache_of_a_pod_may_be_a_volume_of_a_class() -> None:
    pod = dict(render(merge(POD, at("inference.modelCache.storageClass", "nvme"))).pods())[
        "assay-engine"
    ]
    (models,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "models"]
    spec = models["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert (spec["storageClassName"], spec["accessModes"]) == ("nvme", ["ReadWriteOnce"])
    check(render(merge(POD, at("inference.modelCache.storageClass", "nvme"))))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inference": MODEL}, "make the claim first and name it"),
        ({"inference": {"modelCache": {"kind": "pod"}}}, "kind: pod needs inference.modelDownload"),
        (merge(CLAIM, at("inference.modelCache.kind", "node")), "kind: node takes no"),
        (merge(CLAIM, at("inference.modelCache.kind", "none")), "kind: none takes no"),
        (
            {"inference": {"model": {"folder": "a"}, "modelCache": {"kind": "none"}}},
            "inference.model.folder lies in the model cache",
        ),
        (merge(CLAIM, at("inference.modelDownload.image", "aws")), "needs .*command"),
    ],
)
def test_a_cache_that_nothing_fills_is_refused(values: Values, message: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match=message):
        render(values)


def test_a_download_into_a_claim_ends_before_anything_with_a_gpu_is_made() -> None:
    """Helm makes what is for `pre-install` in the order of its weights, and waits for its Job."""
    rendered = render(merge(CLAIM, JOB))
    check(rendered)
    weights = {}
    for item in rendered.objects:
        notes = item["metadata"].get("annotations", {})
        if "test" not in notes.get("helm.sh/hook", "test"):
            assert notes["helm.sh/hook"] == "pre-install,pre-upgrade"
            assert notes["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
            weights[item["kind"]] = int(notes["helm.sh/hook-weight"])
            needed = item["metadata"]["name"]
            assert needed.startswith("assay-download")
    assert weights == {"ServiceAccount": -10, "NetworkPolicy": -10, "Job": -5}
    job = rendered.one("inference/download-job.yaml")["spec"]
    assert "nvidia.com/gpu" not in str(job)
    assert job["template"]["spec"]["serviceAccountName"] == "assay-download"
    assert all("initContainers" not in pod["spec"] for _, pod in rendered.pods())
    claim = {"name": "models", "persistentVolumeClaim": {"claimName": "models"}}
    assert claim in job["template"]["spec"]["volumes"]


def test_deadlines_fit_each_other() -> None:
    def deployment(values: Values) -> Manifest:
        found: Manifest = render(values).one("inference/engine-deployment.yaml")["spec"]
        return found

    deadline = {"inference": {"modelDownload": {"deadlineS": 20000}}}
    job = render(merge(CLAIM, deadline)).one("inference/download-job.yaml")["spec"]
    assert job["activeDeadlineSeconds"] == 20000
    assert environment(job["template"])["DEADLINE_S"] == "20000"
    assert deployment(merge(CLAIM, deadline))["progressDeadlineSeconds"] == 1200
    own = deployment(merge(POD, deadline))
    assert own["progressDeadlineSeconds"] >= 20000 + 900
    (fetch,) = own["template"]["spec"]["initContainers"]
    assert {"name": "DEADLINE_S", "value": "20000"} in fetch["env"]


@pytest.mark.parametrize("run", [{}, JOB], ids=["StatefulSet", "Job"])
def test_each_pod_with_its_own_volume_fills_it_first(run: Values) -> None:
    command = ["sh", "-ec", 'aws s3 sync s3://bucket/qwen "$FOLDER"']
    store = {"image": "registry.example.com/aws-cli:2", "command": command, "repository": ""}
    more = {"modelDownload": {**store, "environment": {"AWS_REGION": "eu-west-1"}}, "replicas": 2}
    rendered = render(merge(merge(POD, run), {"inference": more}))
    check(rendered)
    assert rendered.by_template["inference/download-job.yaml"] == []
    fetching = [pod for _, pod in rendered.pods() if "initContainers" in pod["spec"]]
    assert len(fetching) == 3
    for pod in fetching:
        (fetch,) = pod["spec"]["initContainers"]
        assert (fetch["image"], fetch["command"]) == (store["image"], command)
        assert {"name": "FOLDER", "value": "/var/lib/assay/models/qwen"} in fetch["env"]
        assert {"name": "AWS_REGION", "value": "eu-west-1"} in fetch["env"]
        assert "resources" in fetch
        assert {"name": "models", "mountPath": "/var/lib/assay/models"} in fetch["volumeMounts"]


def test_a_mirror_and_a_proxy_reach_the_download() -> None:
    mirror = Place("mirror", "10.30.0.7")
    rule = {"to": [{"ipBlock": {"cidr": "10.30.0.0/24"}}], "ports": [{"port": 8080}]}
    values = merge(
        CLAIM,
        {
            "inference": {
                "modelDownload": {
                    "internet": False,
                    "environment": {
                        "HF_ENDPOINT": "http://mirror.example.com:8080",
                        "HTTPS_PROXY": "http://proxy.example.com:8080",
                    },
                }
            },
            "networkPolicy": {"extraEgress": {"download": [rule]}},
        },
    )
    rendered = render(values)
    download = next(pod.name for pod in pods_of(rendered) if pod.name.startswith("download-"))
    reached = edges(rendered, pods_of(rendered), [mirror, *EVERYWHERE], PORTS)
    assert {edge for edge in reached if edge.port != 53} == {Edge(download, "mirror", 8080)}
    pod = render(values).one("inference/download-job.yaml")["spec"]["template"]
    assert environment(pod)["HF_ENDPOINT"] == "http://mirror.example.com:8080"
    assert environment(pod)["HTTPS_PROXY"] == "http://proxy.example.com:8080"


def test_with_volumes_of_their_own_the_pods_reach_the_hub_unless_it_is_closed() -> None:
    def to_internet(values: Values) -> set[str]:
        return {e.sender for e in outward(render(values)) if e.receiver.startswith("internet")}

    several = merge(POD, {"inference": {"replicas": 2}})
    assert to_internet(several) == {"engine", "router", "trainer"}
    assert Edge("engine", "dns", 53) in outward(render(several))
    assert to_internet(merge(several, at("inference.modelDownload.internet", False))) == set()
    assert all(name.startswith("download-") for name in to_internet(CLAIM))


@pytest.mark.parametrize(
    "change",
    [
        {"modelDownload": {"revision": "v2"}},
        {"modelDownload": {"repository": "owner/other"}},
        {"modelDownload": {"environment": {"HF_ENDPOINT": "http://mirror"}}},
        {"modelDownload": {"deadlineS": 99}},
        {"modelCache": {"existingClaim": "other"}},
    ],
)
def test_another_input_makes_another_job(change: dict[str, Any]) -> None:
    def name(values: Values) -> str:
        return str(render(values).one("inference/download-job.yaml")["metadata"]["name"])

    assert name(merge(CLAIM, {"inference": change})) != name(CLAIM)


class Ending(dict[str, int]):
    """Ends the client in the middle of the weights, once the other file is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client: subprocess.Popen[str] | None = None

    def pop(self, key: str, default: Any = None) -> Any:
        if key != "model.safetensors":
            return default
        wait_until(lambda: list(self.folder.glob("*.part-*/config.json")), "the other file")
        assert self.client is not None
        self.client.kill()
        return 3000


def start(hub: LocalHub, folder: Path, **more: str) -> subprocess.Popen[str]:
    """Start the Job's own script against a hub, as its pod does."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent / "home"),
        "HF_ENDPOINT": hub.url,
        "REPOSITORY": "owner/qwen",
        "REVISION": "main",
        "FOLDER": str(folder),
    }
    script = (CHART / "files" / "download_model.py").read_text()
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", script]
    return subprocess.Popen(command, env=variables | more, stdout=pipe, stderr=pipe, text=True)


def fetch(hub: LocalHub, folder: Path, **more: str) -> tuple[int, str]:
    """Return the exit code of the script, and its output."""
    with start(hub, folder, **more) as client:
        said = client.communicate(timeout=60)
    return client.returncode, "".join(said)


def test_a_download_that_was_cut_off_keeps_what_it_has(tmp_path: Path) -> None:
    hub = LocalHub(tmp_path / "hub")
    weights = os.urandom(40_000)
    hub.publish("models", "owner/qwen", {"config.json": b"{}", "model.safetensors": weights})
    folder = tmp_path / "models" / "qwen"
    with hub.running():
        hub.break_after = ending = Ending(folder.parent)
        with start(hub, folder) as ending.client:
            ending.client.communicate(timeout=60)
        assert not folder.exists()
        hub.break_after = {}
        seen = len(hub.asked)
        code, said = fetch(hub, folder)
        assert code == 0, said
        fetched = [path for method, path, _ in hub.asked[seen:] if "/resolve/" in path]
        assert all(path.endswith("model.safetensors") for path in fetched)
        assert (folder / "model.safetensors").read_bytes() == weights
        assert [path.name for path in folder.parent.glob("qwen*")] == ["qwen"]
        seen = len(hub.asked)
        assert fetch(hub, folder) == (0, f"{folder} is there already\n")
        code, said = fetch(hub, folder, REVISION="v2")
        assert (code, "choose another folder" in said) == (3, True)
        assert hub.asked[seen:] == []


def test_a_download_that_is_refused_is_not_tried_again(tmp_path: Path) -> None:
    with LocalHub(tmp_path / "hub").running() as hub:
        code, said = fetch(hub, tmp_path / "models" / "b", HF_TOKEN="x")
        assert code == 3, said
    job = render(CLAIM).one("inference/download-job.yaml")["spec"]
    final = job["podFailurePolicy"]["rules"][1]
    assert (final["action"], final["onExitCodes"]["values"]) == ("FailJob", [3])
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_a_download_ends_at_its_deadline(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hub = LocalHub(tmp_path, url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        code, _ = fetch(hub, tmp_path / "models" / "qwen", DEADLINE_S="2")
    assert code == -signal.SIGALRM
