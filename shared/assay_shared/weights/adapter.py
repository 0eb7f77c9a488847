"""Merging of LoRA adapters (arXiv 2106.09685) in peft's form into their base checkpoint.

A served checkpoint W and an adapter's A and B make W + s B A, with s = alpha / r, or
alpha / sqrt(r) for a rank-stabilised adapter (arXiv 2312.03732).
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from assay_shared.errors import WeightsRefused
from assay_shared.weights.adapter_config import check_modules, check_plain
from assay_shared.weights.checkpoint import ADAPTER_CONFIG, ADAPTER_WEIGHTS, weight_files
from assay_shared.weights.safetensors import read_header

_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"


def merge(base: Path, adapter: Path, into: Path) -> None:
    """Merge `adapter` into the checkpoint `base` and write the result to the new folder `into`.

    Raises:
        WeightsRefused: the adapter is unreadable, is not plain LoRA, lacks a module that it
            names, or is another model's.
    """
    config = _read_config(adapter)
    pairs, scale = read_adapter(adapter)
    files = weight_files(base)
    headers = {name: one for file in files for name, one in read_header(file).items()}
    if unknown := sorted(pairs.keys() - headers.keys()):
        raise WeightsRefused(f"the base has no {unknown[0]}: this adapter is another model's")
    if config.get("fan_in_fan_out"):
        pairs = {name: _on_conv1d(headers[name].shape, *pair) for name, pair in pairs.items()}
    for name, (a_RI, b_OR) in pairs.items():
        _check_shapes(name, headers[name].shape, a_RI, b_OR)
    check_modules(config, pairs, {name: one.shape for name, one in headers.items()})
    into.mkdir(parents=True)
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


def merged(
    name: str, weight_OI: torch.Tensor, a_RI: torch.Tensor, b_OR: torch.Tensor, scale: float
) -> torch.Tensor:
    """Return W + scale B A, summed in float32 and rounded to the type of W.

    O out, I in, R rank.

    Raises:
        WeightsRefused: the shapes do not fit.
    """
    _check_shapes(name, tuple(weight_OI.shape), a_RI, b_OR)
    return (weight_OI.float() + scale * (b_OR.float() @ a_RI.float())).to(weight_OI.dtype)


def _on_conv1d(
    shape: tuple[int, ...], a_RI: torch.Tensor, b_OR: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return A and B for a weight (I, O), the form of `Conv1D` of transformers, as GPT-2 has it.

    (B A)^T = A^T B^T. Linear layers next to them keep their (O, I).
    """
    if shape != (a_RI.shape[1], b_OR.shape[0]):
        return a_RI, b_OR
    return b_OR.T.contiguous(), a_RI.T.contiguous()


def _check_shapes(
    name: str, shape_OI: tuple[int, ...], a_RI: torch.Tensor, b_OR: torch.Tensor
) -> None:
    shape = (b_OR.shape[0], a_RI.shape[1])
    if shape_OI != shape or a_RI.shape[0] != b_OR.shape[1]:
        raise WeightsRefused(
            f"{name} is {list(shape_OI)}, and the adapter's is {list(shape)}: "
            "this adapter is another model's"
        )


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / ADAPTER_CONFIG).read_bytes())
    except (OSError, ValueError) as error:
        raise WeightsRefused(f"{folder} is not a readable adapter: {error}") from error
    if not isinstance(config, dict):
        raise WeightsRefused(f"{folder / ADAPTER_CONFIG} is not a JSON object")
    return config


def read_adapter(folder: Path) -> tuple[dict[str, tuple[torch.Tensor, torch.Tensor]], float]:
    """Return the pairs A and B by name of the base's tensor, and the scale of their product.

    Raises:
        WeightsRefused: the adapter is unreadable, or does more than plain LoRA.
    """
    config = _read_config(folder)
    try:
        tensors = load_file(folder / ADAPTER_WEIGHTS)
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise WeightsRefused(f"{folder} is not a readable adapter: {error}") from error
    if rank < 1:
        raise WeightsRefused(f"{folder / ADAPTER_CONFIG} has r {rank}: at least 1")
    check_plain(config)
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for name in sorted(tensors):
        kind = next((one for one in (_A, _B) if name.endswith(one)), None)
        if kind is None:
            raise WeightsRefused(f"{ADAPTER_WEIGHTS} has {name}: only plain LoRA is merged")
        module, other = name.removesuffix(kind), _B if kind == _A else _A
        if module + other not in tensors:
            raise WeightsRefused(
                f"{ADAPTER_WEIGHTS} is incomplete: {name} has no {other.split('.')[1]}",
                hint="copy the adapter again from its training",
            )
        weight = module.removeprefix(_PREFIX) + ".weight"
        pairs[weight] = (tensors[module + _A], tensors[module + _B])
    if not pairs:
        raise WeightsRefused(f"{ADAPTER_WEIGHTS} is empty")
    return pairs, alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
