"""GPUs are found by their devices, and images for GPUs refuse to start without one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay_inference.engines.factory import check_engine
from assay_inference.settings import InferenceSettings
from assay_shared.errors import Conflict
from assay_shared.runtime import gpus


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in the place of /dev."""
    monkeypatch.setattr(gpus, "_DEVICES", tmp_path)
    return tmp_path


def test_only_devices_with_a_number_are_gpus(devices: Path) -> None:
    for name in ("nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm", "null"):
        (devices / name).touch()
    assert gpus.num_gpus() == 2
    gpus.require_gpu()


def test_the_control_device_alone_is_no_gpu(devices: Path) -> None:
    (devices / "nvidiactl").touch()
    with pytest.raises(Conflict, match="no GPU is visible here"):
        gpus.require_gpu()


@pytest.mark.parametrize("engine", ["transformers", "vllm", "sglang"])
def test_an_engine_that_needs_a_gpu_is_refused_before_it_is_looked_for(
    devices: Path, engine: str
) -> None:
    settings = InferenceSettings.model_validate(
        {"needs_gpu": True, "inference_engine": engine, "inference_vllm_python": "/nowhere"}
    )
    with pytest.raises(Conflict, match="no GPU is visible here"):
        check_engine(settings)


def test_a_router_needs_no_gpu_of_its_own(devices: Path) -> None:
    check_engine(
        InferenceSettings(
            needs_gpu=True,
            inference_engine="replicas",
            inference_replicas="http://127.0.0.1:8001",
        )
    )


@pytest.mark.slow
@pytest.mark.skipif(gpus.num_gpus() > 0, reason="this machine has a GPU")
@pytest.mark.parametrize("service", ["inference", "trainer"])
def test_a_service_without_its_gpu_ends_with_one_line(service: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", service, "serve", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"ASSAY_NEEDS_GPU": "true", "ASSAY_RUNS": str(tmp_path)},
    )
    assert done.returncode == 3, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: no GPU is visible here")
    assert "--gpus all" in line
    assert "the image for the CPU" in line
