"""Merging of LoRA adapters (arXiv 2106.09685) in peft's form into their base checkpoint.

A served checkpoint W and an adapter's A and B make W + s B A, with s = alpha / r, or
alpha / sqrt(r) for a rank-stabilised adapter (arXiv 2312.03732).
"""

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from assay_shared.errors import WeightsRefused
from assay_shared.weights.checkpoint import ADAPTER_CONFIG, ADAPTER_WEIGHTS, weight_files

_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"
#: Entries beyond plain LoRA, and their values in an adapter without such an addition.
_PLAIN: Mapping[str, tuple[object, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "lora_bias": (False, None),
    "modules_to_save": (None, []),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "fan_in_fan_out": (False, None),
    "layer_replication": (None,),
    "trainable_token_indices": (None, {}),
}


def merge(base: Path, adapter: Path, into: Path) -> None:
    """Merge `adapter` into the checkpoint `base` and write the result to the new folder `into`.

    Raises:
        WeightsRefused: the adapter is unreadable, is not plain LoRA, or is another model's.
    """
    pairs, scale = read_adapter(adapter)
    into.mkdir(parents=True)
    files = weight_files(base)
    for file in base.iterdir():
        if file.is_file() and file not in files:
            shutil.copyfile(file, into / file.name)
    for file in files:
        with safe_open(file, "pt") as content:
            metadata = content.metadata()
        tensors = load_file(file)
        for name in sorted(pairs.keys() & tensors.keys()):
            tensors[name] = merged(name, tensors[name], *pairs.pop(name), scale)
        save_file(tensors, into / file.name, metadata=metadata)
    if pairs:
        raise WeightsRefused(f"the base has no {min(pairs)}: this adapter is another model's")


def merged(
    name: str, weight_OI: torch.Tensor, a_RI: torch.Tensor, b_OR: torch.Tensor, scale: float
) -> torch.Tensor:
    """Return W + scale B A, summed in float32 and rounded to the type of W.

    O out, I in, R rank.

    Raises:
        WeightsRefused: the shapes do not fit.
    """
    shape = (b_OR.shape[0], a_RI.shape[1])
    if weight_OI.shape != shape or a_RI.shape[0] != b_OR.shape[1]:
        raise WeightsRefused(
            f"{name} is {list(weight_OI.shape)}, and the adapter's is {list(shape)}: "
            "this adapter is another model's"
        )
    return (weight_OI.float() + scale * (b_OR.float() @ a_RI.float())).to(weight_OI.dtype)


def read_adapter(folder: Path) -> tuple[dict[str, tuple[torch.Tensor, torch.Tensor]], float]:
    """Return the pairs A and B by name of the base's tensor, and the scale of their product.

    Raises:
        WeightsRefused: the adapter is unreadable, or does more than plain LoRA.
    """
    try:
        config = json.loads((folder / ADAPTER_CONFIG).read_bytes())
        tensors = load_file(folder / ADAPTER_WEIGHTS)
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise WeightsRefused(f"{folder} is not a readable adapter: {error}") from error
    for key, plain in _PLAIN.items():
        if key in config and config[key] not in plain:
            raise WeightsRefused(f"{ADAPTER_CONFIG} has {key} {config[key]!r}: only plain LoRA")
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for name in sorted(tensors):
        module = name.removeprefix(_PREFIX)
        if module.endswith(_A) and name.removesuffix(_A) + _B in tensors:
            other = tensors[name.removesuffix(_A) + _B]
            pairs[module.removesuffix(_A) + ".weight"] = (tensors[name], other)
        elif not (module.endswith(_B) and name.removesuffix(_B) + _A in tensors):
            raise WeightsRefused(f"{ADAPTER_WEIGHTS} has {name}: only plain LoRA")
    if not pairs:
        raise WeightsRefused(f"{ADAPTER_WEIGHTS} is empty")
    return pairs, alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
