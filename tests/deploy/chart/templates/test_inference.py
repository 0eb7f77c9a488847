"""A single engine, or several behind a router; its models."""

from typing import Any

import pytest

from tests.support.chart.rendering import (
    Manifest,
    Values,
    at,
    container,
    environment,
    example,
    merge,
    render,
)

ROUTED = {"inference": {"replicas": 2}}
OFF = at("inference.enabled", False)
DOWNLOAD: dict[str, Any] = {
    "modelDownload": {"enabled": True, "repository": "owner/model", "folder": "model"},
    "modelCache": {"existingClaim": "models"},
}

#: For each template, values under which it renders nothing.
DISABLED: dict[str, list[Values]] = {
    "inference/engine-deployment.yaml": [OFF],
    "inference/service.yaml": [OFF],
    "inference/serviceaccount.yaml": [OFF],
    "inference/engine-service.yaml": [{}, merge(ROUTED, OFF)],
    "inference/router-deployment.yaml": [{}, merge(ROUTED, OFF)],
    "inference/router-serviceaccount.yaml": [
        ROUTED,
        at("inference.router.serviceAccount.create", True),
    ],
    "inference/download-serviceaccount.yaml": [
        {},
        merge({"inference": DOWNLOAD}, at("inference.modelDownload.serviceAccount.create", False)),
    ],
    "inference/pdb.yaml": [OFF, at("inference.podDisruptionBudget.enabled", False)],
    "inference/models-claim.yaml": [
        {"inference": {"enabled": False}, "trainer": {"enabled": False}},
        at("inference.modelCache.existingClaim", "mine"),
    ],
    "inference/download-job.yaml": [{}, {"inference": {**DOWNLOAD, "enabled": False}}],
}


@pytest.mark.parametrize(
    ("template", "values"), [(name, item) for name, items in DISABLED.items() for item in items]
)
def test_it_renders_nothing_when_disabled(template: str, values: Values) -> None:
    assert render(values).by_template[template] == []


def engine(values: Values) -> Manifest:
    pod: Manifest = render(values).one("inference/engine-deployment.yaml")["spec"]["template"]
    return pod


def router(values: Values) -> Manifest:
    pod: Manifest = render(values).one("inference/router-deployment.yaml")["spec"]["template"]
    return pod


def test_an_engine_has_its_gpus_on_its_pool() -> None:
    values = merge(example("values-a100.yaml"), at("inference.gpus", 4))
    pod = engine(values)
    assert container(pod)["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert pod["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    assert pod["spec"]["tolerations"][0]["key"] == "nvidia.com/gpu"
    assert container(pod)["image"].endswith("-cuda")


def test_without_an_accelerator_it_is_the_cpu_image_and_no_gpu() -> None:
    pod = engine(example("values-kind-cpu.yaml"))
    assert container(pod)["image"].endswith("-cpu")
    assert "nvidia.com/gpu" not in container(pod)["resources"]["limits"]


def test_shared_memory_models_and_runs_are_mounted() -> None:
    pod = engine({"inference": {"sharedMemory": "3Gi"}})
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container(pod)["volumeMounts"]}
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "3Gi"}
    assert mounts["/dev/shm"]["name"] == "shm"
    assert mounts["/var/lib/assay/models"]["readOnly"] is True
    assert mounts["/var/lib/assay/runs"]["readOnly"] is True
    assert "emptyDir" in volumes[mounts["/var/lib/assay/cache"]["name"]], "of compiled kernels"
    assert volumes["runs"]["persistentVolumeClaim"]["claimName"] == "assay-runs"


def test_claims_of_ones_own_are_taken() -> None:
    values = {
        "inference": {"modelCache": {"existingClaim": "our-models"}},
        "trainer": {"runs": {"existingClaim": "our-runs"}},
    }
    volumes = {volume["name"]: volume for volume in engine(values)["spec"]["volumes"]}
    assert volumes["models"]["persistentVolumeClaim"]["claimName"] == "our-models"
    assert volumes["runs"]["persistentVolumeClaim"]["claimName"] == "our-runs"


def test_options_go_to_the_engine_that_is_named() -> None:
    for name in ("vllm", "sglang"):
        found = environment(engine({"inference": {"engine": name, "arguments": "--a 1"}}))
        assert found["ASSAY_INFERENCE_ENGINE"] == name
        assert found[f"ASSAY_INFERENCE_{name.upper()}_ARGUMENTS"] == "--a 1"


def test_several_gpus_hold_one_model_together_unless_it_is_said_otherwise() -> None:
    def arguments(**part: object) -> str | None:
        found = environment(engine({"inference": {"gpus": 4, **part}}))
        return found.get("ASSAY_INFERENCE_VLLM_ARGUMENTS")

    assert arguments() == "--tensor-parallel-size 4"
    assert arguments(arguments="--a 1") == "--a 1 --tensor-parallel-size 4"
    split = "--tensor-parallel-size 2 --pipeline-parallel-size 2"
    assert arguments(arguments=split) == split
    assert arguments(environment={"ASSAY_INFERENCE_PROCESSES": 4}) is None
    assert arguments(accelerator="none", image={"name": "engines"}) is None
    assert arguments(gpus=1) is None


def test_without_a_model_nobody_waits_until_it_is_ready() -> None:
    """The first weights come from a trainer through the service all the same."""
    empty = container(engine({}))
    assert empty["readinessProbe"]["httpGet"]["path"] == "/health"
    served = engine(at("inference.model.folder", "qwen/7b"))
    assert container(served)["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert environment(served)["ASSAY_INFERENCE_MODEL"] == "/var/lib/assay/models/qwen/7b"
    assert container(served)["livenessProbe"]["httpGet"]["path"] == "/health"
    assert render().one("inference/service.yaml")["spec"]["publishNotReadyAddresses"] is True


def test_a_large_model_has_time_to_start() -> None:
    pod = engine(at("inference.startupS", 3600))
    probe = container(pod)["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 3600
    assert environment(pod)["ASSAY_INFERENCE_START_TIMEOUT_S"] == "3600"
    deployment = render(at("inference.startupS", 3600)).one("inference/engine-deployment.yaml")
    assert deployment["spec"]["progressDeadlineSeconds"] > 3600


def test_engines_are_replaced_in_place() -> None:
    strategy = render(ROUTED).one("inference/engine-deployment.yaml")["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_several_engines_stand_behind_a_router() -> None:
    rendered = render(ROUTED)
    pods = dict(rendered.pods())
    service, engines = (
        rendered.one("inference/service.yaml"),
        rendered.one("inference/engine-service.yaml"),
    )
    assert service["metadata"]["name"] == "assay-inference"
    assert service["spec"]["selector"].items() <= pods["assay-router"]["metadata"]["labels"].items()
    assert engines["spec"]["selector"].items() <= pods["assay-engine"]["metadata"]["labels"].items()
    assert engines["spec"]["clusterIP"] == "None"
    assert engines["spec"]["publishNotReadyAddresses"] is True, "it gives them their weights"
    found = environment(router(ROUTED))
    assert found["ASSAY_INFERENCE_ENGINE"] == "replicas"
    assert found["ASSAY_INFERENCE_REPLICAS"] == "dns+http://assay-engine:8001"


def test_there_is_one_router_without_a_gpu_at_any_moment() -> None:
    rendered = render(ROUTED)
    spec = rendered.one("inference/router-deployment.yaml")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    box = container(router(ROUTED))
    assert box["image"].endswith("-cpu")
    assert "nvidia.com/gpu" not in box["resources"]["limits"]


def test_a_router_is_given_a_model_only_where_there_is_no_trainer() -> None:
    """Version 0 is older than the engines' version in a running training."""
    values = merge(ROUTED, at("inference.model.folder", "qwen"))
    assert "ASSAY_INFERENCE_MODEL" not in environment(router(values))
    alone = router(merge(values, at("trainer.enabled", False)))
    assert environment(alone)["ASSAY_INFERENCE_MODEL"] == "/var/lib/assay/models/qwen"
    assert container(alone)["readinessProbe"]["httpGet"]["path"] == "/ready"


def test_a_budget_is_about_engines() -> None:
    rendered = render(ROUTED)
    budget = rendered.one("inference/pdb.yaml")["spec"]
    deployment = rendered.one("inference/engine-deployment.yaml")
    assert budget["selector"] == deployment["spec"]["selector"]


def test_models_claim_stays_when_the_release_goes() -> None:
    claim = render(at("inference.modelCache.storageClass", "shared")).one(
        "inference/models-claim.yaml"
    )
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["storageClassName"] == "shared"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_download_job_is_another_one_for_another_model() -> None:
    def job(folder: str) -> Manifest:
        changed = merge({"inference": DOWNLOAD}, at("inference.modelDownload.folder", folder))
        return render(changed).one("inference/download-job.yaml")

    assert job("a")["metadata"]["name"] != job("b")["metadata"]["name"]
    newer = merge({"inference": DOWNLOAD}, at("image.tag", "9.9"))
    renamed = render(newer).one("inference/download-job.yaml")["metadata"]["name"]
    assert renamed != job("model")["metadata"]["name"], "a job's image cannot be changed"
    pod = job("a")["spec"]["template"]
    assert environment(pod)["FOLDER"] == "/var/lib/assay/models/a"
    assert "HF_TOKEN" not in environment(pod)
    compile(container(pod)["command"][2], "download_model.py", "exec")


def test_download_job_has_its_token_by_reference() -> None:
    token = {"inference": {"modelDownload": {"tokenSecret": {"name": "hub", "key": "t"}}}}
    pod = render(merge({"inference": DOWNLOAD}, token)).one("inference/download-job.yaml")["spec"]
    assert environment(pod["template"])["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "t"}}
