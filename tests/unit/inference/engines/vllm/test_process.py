"""vLLM's version is checked before any start."""

from pathlib import Path

import pytest

from assay_inference.engines.vllm.process import check_version
from assay_inference.settings import InferenceSettings
from assay_shared.errors import ConfigError


def interpreter(folder: Path, shown: str) -> InferenceSettings:
    """Return settings with an interpreter to print `shown`."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho '{shown}'\n")
    path.chmod(0o755)
    return InferenceSettings(inference_vllm_python=path)


@pytest.mark.parametrize("version", ["0.22.1", "0.30.0", "0.32.0", "0.32.4+cpu"])
def test_supported_versions_fit(tmp_path: Path, version: str) -> None:
    assert check_version(interpreter(tmp_path, f'"{version}"')) == version


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ('"0.22.0"', "has vLLM 0.22.0 .0.22.1 to 0.32 are supported"),
        ('"0.33.0"', "has vLLM 0.33.0"),
        ("null", "there is no vLLM in the environment of"),
        ("nonsense", "does not run"),
    ],
)
def test_others_are_refused_in_one_line(tmp_path: Path, shown: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        check_version(interpreter(tmp_path, shown))
    assert raised.value.field == "ASSAY_INFERENCE_VLLM_PYTHON"
    assert "\n" not in str(raised.value)


def test_a_missing_interpreter_is_named() -> None:
    settings = InferenceSettings(inference_vllm_python=Path("/nowhere/python"))
    with pytest.raises(ConfigError, match="/nowhere/python does not run"):
        check_version(settings)
