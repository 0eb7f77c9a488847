"""Names of the weights, compared with config.json's network before anything is written."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay_shared.errors import WeightsRefused
from assay_trainer.handoff.writing.tensors import PlannedTensor

_LAYER = re.compile(r"\.(\d+)\.")


def check_names(
    folder: Path, config: Mapping[str, Any], weights: Mapping[str, PlannedTensor]
) -> None:
    """Check that no weight of the network is missing.

    Names of another scheme, which transformers renames as it loads them, are left to the loading.

    Args:
        folder: it has the config.json.

    Raises:
        WeightsRefused: weights are missing; the message names the first one.
    """
    if config.get("quantization_config"):
        return
    number = _layers_missing(config, weights)
    if number is not None:
        raise _refusal(f"layer {number}", 1)
    groups = _network(folder)
    if not groups or weights.keys() - {name for names in groups for name in names}:
        return
    if missing := sorted(max(names) for names in groups if not names & weights.keys()):
        raise _refusal(missing[0], len(missing))


def _refusal(first: str, number: int) -> WeightsRefused:
    more = f", and {number - 1} more" if number > 1 else ""
    return WeightsRefused(
        f"the checkpoint has no {first}{more}: config.json's network needs it",
        hint="save or copy the checkpoint again; config.json must be that of the trained model",
    )


def _layers_missing(config: Mapping[str, Any], weights: Mapping[str, PlannedTensor]) -> int | None:
    """Return the first layer that config.json counts and no weight is of; None if all are there.

    This bounds the network that is built next, whatever number config.json has.
    """
    text: Any = config.get("text_config") or {}
    number = config.get("num_hidden_layers", text.get("num_hidden_layers"))
    found = {int(one) for name in weights for one in _LAYER.findall(name)}
    if not isinstance(number, int) or not found:
        return None
    # Some networks share layers, so only one beyond all weights is missing for sure.
    return max(found) + 1 if number > max(found) + 1 else None


def _network(folder: Path) -> list[set[str]]:
    """Return the names of each parameter, tied ones together; empty if there is no such class."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        with torch.device("meta"):
            model = auto.from_config(config, trust_remote_code=False)
    # A network that cannot be built fails the check of loading, with the reason.
    except (OSError, ValueError, LookupError, TypeError, ImportError, AttributeError, RuntimeError):
        return []
    groups: dict[int, set[str]] = {}
    for name, one in model.named_parameters(remove_duplicate=False):
        groups.setdefault(id(one), set()).add(name)
    return list(groups.values())
