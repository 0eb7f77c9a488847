"""What every part takes reaches every pod of it, as Kubernetes wants it."""

import re
from typing import Any

import helm_python
import pytest
import yaml

from tests.support.chart.parts import (
    EVERYTHING,
    PARTS,
    PODS,
    every_pod,
    every_rendering,
    of_every_part,
)
from tests.support.chart.rendering import (
    CHART,
    EXAMPLES,
    ROOT,
    Manifest,
    at,
    check,
    example,
    merge,
    render,
)

VERSIONS = tuple(f"1.{minor}.0" for minor in range(30, 38))
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
                    ]
                }
            ]
        }
    }
}
SPREAD = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
SETTINGS: dict[str, Any] = {
    "nodeSelector": {"pool": "rl"},
    "tolerations": [{"key": "rl", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": AFFINITY,
    "topologySpreadConstraints": [SPREAD],
    "priorityClassName": "high",
    "runtimeClassName": "kata",
    "schedulerName": "volcano",
    "podLabels": {"azure.workload.identity/use": "true", "cost": "this"},
    "podAnnotations": {"karpenter.sh/do-not-disrupt": "true"},
    "annotations": {"reloader.stakater.com/auto": "true"},
    "extraVolumes": [{"name": "authorities", "configMap": {"name": "authorities"}}],
    "extraVolumeMounts": [{"name": "authorities", "mountPath": "/etc/ssl/ours", "readOnly": True}],
    "environment": {"HTTPS_PROXY": "http://proxy.example.com:3128", "LARGE": 1_048_576, "NO": True},
    "secretEnvironment": [{"name": "OUR_KEY", "secret": "ours", "key": "key"}],
    "serviceAccount": {"create": True, "annotations": {"eks.amazonaws.com/role-arn": "arn:a"}},
    "resources": {
        "requests": {"cpu": 4, "memory": "8Gi", "ephemeral-storage": "1Gi"},
        "limits": {"cpu": 4.5, "memory": "8Gi", "vpc.amazonaws.com/efa": 1},
    },
}
GLOBALLY: dict[str, Any] = {
    "image": {"pullSecrets": ["registry"]},
    "commonLabels": {"cost": "all", "team": "rl"},
    "commonAnnotations": {"owner": "rl@example.com"},
}
WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet", "Job", "JobSet", "Pod"}
PLACED = every_pod(merge(of_every_part(SETTINGS), GLOBALLY))


def main_container(pod: Manifest) -> Manifest:
    found: Manifest = pod["spec"]["containers"][0]
    return found


def test_the_examples_of_settings_are_all_that_a_part_takes() -> None:
    text = (CHART / "values.schema.json").read_text()
    assert f'"^({"|".join(["resources", *(key for key in SETTINGS if key != "resources")])})$"' in (
        text
    )


@pytest.mark.parametrize("name", sorted(PODS))
def test_a_pod_is_where_its_part_says(name: str) -> None:
    spec = PLACED[name]["spec"]
    same = (
        *("nodeSelector", "tolerations", "affinity"),
        *("priorityClassName", "runtimeClassName", "schedulerName"),
    )
    assert {key: spec.get(key) for key in same} == {key: SETTINGS[key] for key in same}
    (spread,) = spec["topologySpreadConstraints"]
    counted = spread.pop("labelSelector")["matchLabels"]
    assert spread == SPREAD
    assert counted.items() <= PLACED[name]["metadata"]["labels"].items()
    assert spec["imagePullSecrets"] == [{"name": "registry"}]


@pytest.mark.parametrize("name", sorted(PODS))
def test_a_pod_is_labelled_as_its_part_says(name: str) -> None:
    metadata = PLACED[name]["metadata"]
    expected = {"azure.workload.identity/use": "true", "cost": "this", "team": "rl"}
    assert metadata["labels"].items() >= expected.items()
    assert metadata["annotations"]["karpenter.sh/do-not-disrupt"] == "true"


@pytest.mark.parametrize("name", sorted(PODS))
def test_a_container_has_what_its_part_adds(name: str) -> None:
    pod = PLACED[name]
    box = main_container(pod)
    variables = {item["name"]: item.get("value", item.get("valueFrom")) for item in box["env"]}
    assert variables["HTTPS_PROXY"] == "http://proxy.example.com:3128"
    assert (variables["LARGE"], variables["NO"]) == ("1048576", "true")
    assert variables["OUR_KEY"] == {"secretKeyRef": {"name": "ours", "key": "key"}}
    assert SETTINGS["extraVolumes"][0] in pod["spec"]["volumes"]
    assert SETTINGS["extraVolumeMounts"][0] in box["volumeMounts"]
    limits = box["resources"]["limits"]
    assert limits.items() >= SETTINGS["resources"]["limits"].items()
    assert box["resources"]["requests"] == SETTINGS["resources"]["requests"]


def test_workloads_and_accounts_have_their_annotations() -> None:
    for rendered in every_rendering(merge(of_every_part(SETTINGS), GLOBALLY)):
        workloads = dict(rendered.pods())
        accounts = {item["metadata"]["name"]: item for item in rendered.of_kind("ServiceAccount")}
        used = {pod["spec"]["serviceAccountName"] for pod in workloads.values()}
        assert used == accounts.keys()
        assert len(used) == len(PARTS), "each part has its own"
        for item in rendered.objects:
            metadata = item["metadata"]
            assert metadata["labels"]["team"] == "rl", metadata["name"]
            assert metadata["annotations"]["owner"] == "rl@example.com", metadata["name"]
            annotated = "reloader.stakater.com/auto" in metadata["annotations"]
            assert annotated == (item["kind"] in WORKLOADS), metadata["name"]
        for account in accounts.values():
            role = account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]
            assert role == "arn:a"


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_that_a_part_takes_is_valid(version: str) -> None:
    for rendered in every_rendering(merge(of_every_part(SETTINGS), GLOBALLY)):
        check(rendered, (version,))


EXAMPLE_SETS = [(), *((name,) for name in EXAMPLES), ("values-a100.yaml", "values-production.yaml")]


@pytest.mark.parametrize("names", EXAMPLE_SETS, ids=lambda names: "+".join(names))
def test_every_pod_of_every_example_names_the_registrys_secret(names: tuple[str, ...]) -> None:
    rendered = render(merge(example(*names), at("image.pullSecrets", ["registry"])))
    for name, pod in rendered.pods():
        assert pod["spec"].get("imagePullSecrets") == [{"name": "registry"}], name


def test_pods_without_settings_have_none_of_them() -> None:
    for name, pod in every_pod({}).items():
        assert (
            pod["spec"]
            .keys()
            .isdisjoint(
                {"nodeSelector", "tolerations", "affinity", "schedulerName", "runtimeClassName"}
            )
        ), name
        assert pod["metadata"].get("annotations", {}).keys() <= {
            *("assay/config", "helm.sh/hook", "helm.sh/hook-delete-policy")
        }, name


def test_ones_own_constraints_replace_the_charts() -> None:
    def constraints(values: dict[str, Any]) -> list[str]:
        spec = render(values).one("judge/deployment.yaml")["spec"]["template"]["spec"]
        return [item["topologyKey"] for item in spec.get("topologySpreadConstraints", ())]

    assert constraints({}) == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert constraints(at("judge.topologySpreadConstraints", [SPREAD])) == ["rack"]
    assert constraints(at("judge.topologySpreadConstraints", [])) == []
    counted = {"matchLabels": {"tier": "all"}}
    found = render(
        at("judge.topologySpreadConstraints", [SPREAD | {"labelSelector": counted}])
    ).one("judge/deployment.yaml")
    (only,) = found["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert only["labelSelector"] == counted


def test_a_chart_that_is_newer_alone_restarts_nothing() -> None:
    changing = {"app.kubernetes.io/version", "helm.sh/chart"}
    for name, pod in every_pod({}).items():
        if not name.startswith("test-"):
            assert pod["metadata"]["labels"].keys().isdisjoint(changing), name


@pytest.mark.parametrize("label", ["app.kubernetes.io/component", "assay/network", "helm.sh/chart"])
def test_labels_that_find_pods_are_not_ones_own(label: str) -> None:
    for path in ("judge.podLabels", "commonLabels"):
        with pytest.raises(helm_python.HelmRenderError, match=label):
            render(at(path, {label: "x"}))


def test_accounts_may_be_shared_and_made_elsewhere() -> None:
    def account(values: dict[str, Any], name: str) -> Any:
        return every_pod(values)[name]["spec"]["serviceAccountName"]

    assert account({}, "router") == "assay-inference"
    assert account({}, "download") == "assay-download", "it runs before the release's accounts"
    assert account({}, "seccomp") == "assay-sandbox"
    theirs = at("inference.serviceAccount", {"create": False, "name": "theirs"})
    assert {account(theirs, name) for name in ("engine", "router", "download")} == {"theirs"}
    for rendered in every_rendering(theirs):
        made = {item["metadata"]["name"] for item in rendered.of_kind("ServiceAccount")}
        assert "assay-judge" in made
        assert not made & {"theirs", "assay-inference"}
    assert account(at("judge.serviceAccount.create", False), "judge") == "default"
    own = at("inference.router.serviceAccount", {"create": True, "name": "hub"})
    assert (account(own, "router"), account(own, "engine")) == ("hub", "assay-inference")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {part: {"serviceAccount": {"name": "ours"}} for part in ("judge", "reward")},
            "reward.serviceAccount.name: judge makes an account ours too",
        ),
        (
            merge(
                EVERYTHING,
                at("inference.router.serviceAccount.annotations", {"a": "b"}),
            ),
            "inference.router.serviceAccount.annotations needs .*create: true",
        ),
        (
            at("judge.serviceAccount", {"create": False, "annotations": {"a": "b"}}),
            "judge.serviceAccount.annotations needs .*create: true",
        ),
    ],
)
def test_accounts_that_cannot_be_made_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match=message):
        render(values)


@pytest.mark.parametrize("part", ["inference", "trainer"])
def test_a_part_of_a_gpu_is_asked_for_by_its_name(part: str) -> None:
    name = "nvidia.com/mig-3g.40gb"
    pods = every_pod(at(f"{part}.gpuResource", name))
    kinds = ["engine"] if part == "inference" else [kind for kind in PODS if "trainer" in kind]
    for kind in kinds:
        limits = main_container(pods[kind])["resources"]["limits"]
        assert limits[name] == "1"
        assert "nvidia.com/gpu" not in limits
    with pytest.raises(helm_python.HelmValuesError, match=f"/{part}/gpuResource"):
        render(at(f"{part}.gpuResource", "mig"))


def test_images_of_others_come_from_a_mirror_and_by_digest() -> None:
    digest = "@sha256:" + "0" * 64
    pinned = {
        "redis": {"image": f"redis:7.2-alpine{digest}"},
        "sandbox": {"seccompInstaller": {"image": f"other.example.com/busybox{digest}"}},
    }
    mirrored = merge(pinned, {"global": {"imageRegistry": "mirror.example.com/all/"}})
    pods = every_pod(mirrored)
    assert main_container(pods["redis"])["image"] == (
        f"mirror.example.com/all/redis:7.2-alpine{digest}"
    )
    assert main_container(pods["seccomp"])["image"] == f"other.example.com/busybox{digest}"
    assert main_container(pods["judge"])["image"] == "mirror.example.com/all/assay-judge:0.1.0"
    ours = merge(mirrored, at("image.registry", "ours.example.com"))
    assert main_container(every_pod(ours)["judge"])["image"].startswith("ours.example.com/assay-")


def boxes(pod: Manifest) -> list[Manifest]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def test_every_container_may_have_limits_of_its_processor() -> None:
    """A quota of `limits.cpu` admits no pod with a container without one."""
    limit = {"resources": {"limits": {"cpu": 2}, "requests": {"cpu": 1}}}
    for name, pod in every_pod(of_every_part(limit)).items():
        assert [box["resources"]["limits"].get("cpu") for box in boxes(pod)] == (
            [2] * len(boxes(pod))
        ), name


@pytest.mark.parametrize(
    "values",
    [
        {"inference": {"scratch": "1.5Gi"}, "trainer": {"scratch": "30Gi"}},
        {"trainer": {"weightTransfer": "upload"}, "inference": {"uploadsGi": 40}},
        {
            "inference": {
                "modelCache": {"kind": "pod", "size": "60Gi"},
                "model": {"folder": "model"},
            }
        },
    ],
)
def test_scratch_on_a_nodes_disk_is_asked_for(values: dict[str, Any]) -> None:
    units = {"Mi": 1, "Gi": 1024}
    for rendered in every_rendering(values):
        for name, pod in rendered.pods():
            written = [
                volume["emptyDir"]["sizeLimit"]
                for volume in pod["spec"].get("volumes", ())
                if "emptyDir" in volume and volume["emptyDir"].get("medium") != "Memory"
            ]
            asked = main_container(pod)["resources"]["requests"].get("ephemeral-storage", "0Gi")
            needed, has = (
                sum(float(text[:-2]) * units[text[-2:]] for text in texts)
                for texts in (written, [asked])
            )
            assert has == needed, name


def test_what_resources_say_of_a_nodes_disk_counts() -> None:
    def asked(**resources: dict[str, str]) -> Any:
        pod = every_pod(at("trainer.resources", resources))["trainer Job"]
        return main_container(pod)["resources"]["requests"].get("ephemeral-storage")

    assert asked() == "40960Mi"
    assert asked(requests={"ephemeral-storage": "3Gi"}) == "3Gi"
    assert asked(limits={"ephemeral-storage": "3Gi"}) is None


def test_the_examples_of_the_docs_render_with_every_part() -> None:
    text = (ROOT / "docs" / "deploy_pods.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    values = [yaml.safe_load(block) for block in blocks if "dependencies:" not in block]
    assert len(values) == 3
    for example_values in values:
        for rendered in every_rendering(example_values):
            check(rendered, VERSIONS[-1:])


def test_the_docs_name_every_key_that_a_part_takes() -> None:
    text = (ROOT / "docs" / "deploy_pods.md").read_text()
    table = text.partition("| key | for |")[2].partition("\n\n")[0]
    assert {key for key in SETTINGS if f"`{key}" not in table} == set()
