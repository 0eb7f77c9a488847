"""Compose on a machine with GPUs: devices, time to start and to stop, and limits."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_inference.settings import InferenceSettings
from assay_shared.settings.environment import ServiceSettings
from tests.support.compose.rendering import PROFILES, config, everything, profile, seconds

ENGINES, TRAINERS = ("inference", "inference-gpu"), ("trainer", "trainer-gpu", "pipeline")
#: Services of this repository; images of others stop at once.
OURS = (*ENGINES, *TRAINERS, "sandbox", "judge", "reward", "worker", "run")


def gpu(*overlays: str, **environment: str) -> dict[str, Any]:
    files = [word for file in overlays for word in ("--file", file)]
    return dict(config(*files, *profile("gpu"), **environment)["services"])


def device(service: dict[str, Any]) -> dict[str, Any]:
    (found,) = service["deploy"]["resources"]["reservations"]["devices"]
    return dict(found)


def test_engine_and_trainer_share_the_first_gpu_by_default() -> None:
    services = gpu()
    wanted = {"driver": "nvidia", "capabilities": ["gpu"]}
    assert device(services["inference-gpu"]) == wanted | {"count": 1}
    assert device(services["trainer-gpu"]) == wanted | {"device_ids": ["0"]}
    for name in ("inference-gpu", "trainer-gpu"):
        aliases = services[name]["networks"]["mesh"]["aliases"]
        assert aliases == [name.removesuffix("-gpu")], "others call it by the same name"


def test_engines_take_several_gpus_and_the_trainer_another() -> None:
    services = gpu(ASSAY_INFERENCE_GPUS="3", ASSAY_TRAINER_GPU="3")
    engines, trainer = device(services["inference-gpu"]), device(services["trainer-gpu"])
    assert engines["count"] == 3
    assert trainer["device_ids"] == ["3"], "the first three are the engines'"


@pytest.mark.parametrize("name", ["inference-gpu", "trainer-gpu"])
def test_a_device_is_asked_for_by_count_or_by_number_and_never_by_both(name: str) -> None:
    found = device(everything()["services"][name])
    assert len({"count", "device_ids"} & set(found)) == 1, "the engine refuses both"


def test_chosen_gpus_are_named_in_a_file_over_this_one(tmp_path: Path) -> None:
    """docs/deploy_compose.md shows this file."""
    page = (Path(__file__).parents[3] / "docs" / "deploy_compose.md").read_text()
    text = page.partition("```yaml\n# docker-compose.override.yml\n")[2].partition("```")[0]
    assert text
    overlay = tmp_path / "docker-compose.override.yml"
    overlay.write_text(text)
    services = gpu("docker-compose.yml", str(overlay))
    assert device(services["inference-gpu"])["device_ids"] == ["2", "3"]
    assert "count" not in device(services["inference-gpu"])


@pytest.mark.parametrize("count", ["two", "-", "1.5"])
def test_a_number_of_gpus_that_is_none_is_refused(count: str) -> None:
    with pytest.raises(AssertionError, match="count"):
        gpu(ASSAY_INFERENCE_GPUS=count)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("timeout_s", [None, "1800", "90.5"])
def test_an_engine_is_not_unhealthy_while_it_may_still_start(
    name: str, timeout_s: str | None
) -> None:
    given = {} if timeout_s is None else {"ASSAY_INFERENCE_START_TIMEOUT_S": timeout_s}
    service = config(*profile("cpu", "gpu"), **given)["services"][name]
    default_s = InferenceSettings.model_fields["inference_start_timeout_s"].default
    allowed_s = float(timeout_s or default_s)
    assert seconds(service["healthcheck"]["start_period"]) == allowed_s + 60
    assert service["environment"]["ASSAY_INFERENCE_START_TIMEOUT_S"] == timeout_s
    assert "test" not in service["healthcheck"], "the image's own asks the port"


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("given_s", [None, "900"])
def test_a_trainer_has_time_for_its_step_and_a_checkpoint(name: str, given_s: str | None) -> None:
    given = {} if given_s is None else {"ASSAY_TRAINER_GRACE_S": given_s}
    service = config(*profile(*PROFILES), **given)["services"][name]
    own_s = float(service["environment"]["ASSAY_SHUTDOWN_GRACE_S"])
    assert own_s == float(given_s or 165)
    assert seconds(service["stop_grace_period"]) == own_s + 15


@pytest.mark.parametrize("grace_s", [None, "5", "120"])
def test_every_service_is_given_longer_than_it_takes_to_stop(grace_s: str | None) -> None:
    given = {} if grace_s is None else {"ASSAY_SHUTDOWN_GRACE_S": grace_s}
    services = config(*profile(*PROFILES), **given)["services"]
    usual_s = float(grace_s or ServiceSettings.model_fields["shutdown_grace_s"].default)
    for name in OURS:
        environment = services[name]["environment"]
        assert "ASSAY_SHUTDOWN_GRACE_S" in environment, f"{name} would keep its default"
        own_s = float(environment["ASSAY_SHUTDOWN_GRACE_S"] or usual_s)
        assert seconds(services[name]["stop_grace_period"]) >= own_s + 10, name


def test_limits_of_files_hold_for_all_and_those_of_cuda_for_gpus() -> None:
    for name, service in config(*profile(*PROFILES), ASSAY_NOFILE="4096")["services"].items():
        assert service["ulimits"]["nofile"] == 4096, name
        of_gpu = name.endswith("-gpu")
        assert service["ulimits"].get("memlock") == (-1 if of_gpu else None), name
        assert (service["ulimits"].get("stack") == 64 * 2**20) == of_gpu, name
    alone = config("--file", "deploy/sandbox.yaml", "--project-directory", ".")["services"]
    assert alone["sandbox"]["ulimits"] == {"nofile": 16384}


@pytest.mark.parametrize("name", ["inference-gpu", "trainer-gpu"])
def test_shared_memory_is_by_a_variable_and_within_the_limit(name: str) -> None:
    service = gpu(ASSAY_SHM="16g")[name]
    assert int(service["shm_size"]) == 16 * 2**30
    assert int(gpu()[name]["shm_size"]) == 8 * 2**30
    assert int(service["shm_size"]) < int(service["mem_limit"])


def test_the_sandbox_and_its_slots_have_no_gpu() -> None:
    text = yaml.safe_load((Path(__file__).parents[3] / "docker-compose.yml").read_text())
    with_gpu = {name for name, one in text["services"].items() if "devices" in str(one)}
    assert with_gpu == {"inference-gpu", "trainer-gpu", "executor-gpu", "judge-model-gpu"}


def test_models_of_executor_and_judge_have_the_gpus_of_their_variables() -> None:
    options = profile("gpu", "executor", "judge-model")
    chosen = {"ASSAY_EXECUTOR_GPU": "5", "ASSAY_JUDGE_MODEL_GPU": "6"}
    chosen["ASSAY_EXECUTOR_MODEL"] = "/var/lib/assay/models/gpt-oss-120b"
    services = config(*options, **chosen)["services"]
    assert device(services["executor-gpu"])["device_ids"] == ["5"]
    assert device(services["judge-model-gpu"])["device_ids"] == ["6"]
    assert services["executor-gpu"]["command"][:3] == [
        *("vllm", "serve", "/var/lib/assay/models/gpt-oss-120b"),
    ]
