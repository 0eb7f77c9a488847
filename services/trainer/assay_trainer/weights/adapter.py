"""A LoRA adapter (arXiv 2106.09685) within a model: merged, switched off, and written alone.

A layer with the weight W and the adapter's A and B computes W x + s B A x, with s = alpha / rank.
A model without an adapter is taken by each function here, and left as it is.

Shapes: O outputs, I inputs, R rank.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch.nn.functional import linear
from transformers import PreTrainedModel

from assay_shared.weights import checkpoint
from assay_trainer.weights.served_dtype import served_dtypes

#: The name of the adapter within peft, and that of its folder within a checkpoint's.
ADAPTER = "default"
FOLDER = "adapter"
_PREFIX = "base_model.model."


def bare(model: Any) -> PreTrainedModel:
    """Return the network within peft's wrapper; a model without a wrapper is returned."""
    found: PreTrainedModel = getattr(model, "get_base_model", lambda: model)()
    return found


def adapted_layers(model: PreTrainedModel) -> dict[str, Any]:
    """Return the layers with an adapter by name; empty without an adapter."""
    return {name: one for name, one in model.named_modules() if hasattr(one, "lora_A")}


def has_adapter(model: PreTrainedModel) -> bool:
    """Return True if the model has an adapter that is switched on."""
    return any(not layer.disable_adapters for layer in adapted_layers(model).values())


@contextmanager
def adapter_off(model: PreTrainedModel) -> Iterator[None]:
    """Let the model be its base in the block."""
    layers = list(adapted_layers(model).values())
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


@contextmanager
def merged_layers(model: PreTrainedModel) -> Iterator[None]:
    """Let each layer compute with its merged weight in the block, as an engine does.

    One merged weight exists at a time.
    """
    layers, dtypes = adapted_layers(model), served_dtypes(model)
    for name, layer in layers.items():
        layer.forward = partial(_forward, layer, name, dtypes)
    try:
        yield
    finally:
        for layer in layers.values():
            del layer.forward


def whole_state(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return the state by the names that it has without an adapter, with the adapter merged."""
    layers, dtypes = adapted_layers(model), served_dtypes(model)
    found: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict().items():
        owner = name.partition(".base_layer.")[0].partition(".lora_")[0]
        if owner not in layers:
            found[name] = tensor
        elif f"{owner}.weight" not in found:
            found[f"{owner}.weight"], bias = _merged(layers[owner], owner, dtypes)
            if bias is not None:
                found[f"{owner}.bias"] = bias
    return found


def publish_adapter(model: PreTrainedModel, folder: Path, base: str) -> str:
    """Write the adapter alone in an atomic step; return its digest with that of its base."""
    return checkpoint.publish(
        folder,
        lambda into: save_adapter(model, into),
        lambda written, known: checkpoint.adapter_digest(written, base, known),
    )


def save_adapter(model: PreTrainedModel, folder: Path) -> dict[str, str]:
    """Write the adapter in float32 into a folder, as peft reads it.

    Returns:
        The SHA-256 of its weights by the name of their file, computed from memory.
    """
    tensors = {
        f"{_PREFIX}{name}.{part}.weight": getattr(layer, part)[ADAPTER].weight.detach().cpu()
        for name, layer in adapted_layers(model).items()
        for part in ("lora_A", "lora_B")
    }
    content = save(
        {name: tensor.contiguous() for name, tensor in tensors.items()}, {"format": "pt"}
    )
    (folder / checkpoint.ADAPTER_WEIGHTS).write_bytes(content)
    config: Any = model.peft_config
    config[ADAPTER].save_pretrained(folder)
    return {checkpoint.ADAPTER_WEIGHTS: hashlib.sha256(content).hexdigest()}


def _forward(
    layer: Any, name: str, dtypes: dict[str, torch.dtype], hidden: torch.Tensor
) -> torch.Tensor:
    weight, bias = _merged(layer, name, dtypes)
    return linear(hidden, weight.T if layer.fan_in_fan_out else weight, bias)


def _merged(
    layer: Any, name: str, dtypes: dict[str, torch.dtype]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return W + s B A, summed in float32 and rounded once to the served type, and the bias.

    The weight of a `Conv1D` of transformers, as GPT-2 has, is (I, O).
    """
    from peft.utils.integrations import dequantize_module_weight

    base = layer.base_layer
    weight = dequantize_module_weight(base).detach()
    dtype = dtypes.get(f"{name}.weight", weight.dtype)
    if not layer.disable_adapters:
        a_RI, b_OR = (part[ADAPTER].weight.detach() for part in (layer.lora_A, layer.lora_B))
        change_OI = layer.scaling[ADAPTER] * (b_OR.float() @ a_RI.float())
        weight = weight.float() + (change_OI.T if layer.fan_in_fan_out else change_OI)
    bias = base.bias
    if bias is not None:
        bias = bias.detach().to(dtypes.get(f"{name}.bias", bias.dtype))
    return weight.to(dtype), bias
