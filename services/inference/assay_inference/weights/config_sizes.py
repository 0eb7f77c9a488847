"""A check of config.json against the sizes and types of the weights.

A library builds a model from config.json, and allocates its memory before it reads the weights.
"""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path

from assay_inference.weights.safetensors import Tensor
from assay_shared.errors import WeightsRefused
from assay_shared.weights.safetensors import check_types

#: A real config.json has some kilobytes.
_MAX_CONFIG_BYTES = 2**20
#: Names of the number of layers in all models' configurations.
_LAYERS = re.compile(r"(num|n)_(hidden_|decoder_|encoder_)?layers?|(en|de)coder_layers")
_EXPERTS = re.compile(r"(num|n|moe_num)_(local_|routed_)?experts")
#: Each of these fields is at most the longest side of a tensor.
_WIDTHS = frozenset(
    (
        *("hidden_size", "n_embd", "d_model", "intermediate_size", "moe_intermediate_size"),
        *("n_inner", "d_ff", "ffn_dim", "vocab_size", "head_dim"),
        *("num_attention_heads", "num_key_value_heads", "n_head", "n_heads", "num_heads"),
    )
)
_EMBEDDING = re.compile(r"(.*\.)?(embed_tokens|wte|word_embeddings|embed_in)\.weight")
_NUMBER = re.compile(r"(?:^|\.)(\d{1,9})(?=\.)")
#: Allowed excess of a network over its weights: a tied head created twice, and tables.
_MORE_TENSORS, _MORE_NUMBERS = 64, 2**26


def check_layout(folder: Path, layout: Mapping[str, Tensor]) -> None:
    """Check that no size in config.json exceeds the weights' sizes, and the weights' types.

    Raises:
        WeightsRefused: a field is larger, or is not a number; or a tensor has a type that only
            quantized weights have. Names the field or the tensor.
    """
    config = read_config(folder / "config.json")
    check_types(folder, config, layout)
    num_layers, num_experts = _counts(layout)
    widest = max((side for one in layout.values() for side in one.shape), default=0)
    embeddings = {
        one.shape[0]
        for name, one in layout.items()
        if len(one.shape) == 2 and _EMBEDDING.fullmatch(name)
    }
    for place, name, value in _fields(config):
        if _LAYERS.fullmatch(name):
            _check(folder, place, value, num_layers, "layers")
        elif _EXPERTS.fullmatch(name):
            _check(folder, place, value, num_experts, "experts")
        elif name in _WIDTHS:
            _check(folder, place, value, widest, "as the longest side of a tensor")
    size = config.get("vocab_size")
    if embeddings and isinstance(size, int) and size not in embeddings:
        raise _refused(folder, "vocab_size", size, f"{max(embeddings)} tokens")


@contextmanager
def bounded(folder: Path, layout: Mapping[str, Tensor]) -> Iterator[None]:
    """Stop building a network in the block once it is far larger than the weights.

    A field unknown to `check_layout` may decide the size as well.

    Raises:
        WeightsRefused: the network is too large.
    """
    import torch
    from torch.nn.modules.module import (
        register_module_buffer_registration_hook,
        register_module_parameter_registration_hook,
    )

    most_tensors = 2 * len(layout) + _MORE_TENSORS
    items = sum(prod(one.shape) for one in layout.values())
    # An item of packed weights holds up to 32 numbers.
    per_item = 32 if "quantization_config" in read_config(folder / "config.json") else 1
    most_numbers = 2 * per_item * items + _MORE_NUMBERS
    here = threading.get_ident()
    num_tensors = num_numbers = 0

    def count(module: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        # Count only tensors on no device yet, otherwise those read from the files count again.
        nonlocal num_tensors, num_numbers
        if tensor is None or tensor.device.type != "meta" or threading.get_ident() != here:
            return
        num_tensors += 1
        num_numbers += tensor.numel()
        if num_tensors > most_tensors or num_numbers > most_numbers:
            raise WeightsRefused(
                f"{folder}/config.json tells of more than {num_tensors - 1} tensors with "
                f"{num_numbers:,} numbers at {type(module).__name__}.{name}, and the weights have "
                f"{len(layout)} with {items:,}"
            )

    hooks = (
        register_module_parameter_registration_hook(count),
        register_module_buffer_registration_hook(count),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def read_config(file: Path) -> dict[str, object]:
    """Return the fields of a configuration.

    Raises:
        WeightsRefused: it is too large, or no JSON object, or a field is NaN.
    """
    if file.stat().st_size > _MAX_CONFIG_BYTES:
        raise WeightsRefused(f"{file} has more than {_MAX_CONFIG_BYTES} bytes")
    try:
        config = json.loads(file.read_bytes(), parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise WeightsRefused(f"{file} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise WeightsRefused(f"{file} is not a JSON object")
    return config


def _constant(name: str) -> float:
    """Return an infinity, which some models' configurations have; NaN is refused."""
    if name == "NaN":
        raise ValueError("a field is NaN")
    return float(name)


def _counts(layout: Mapping[str, Tensor]) -> tuple[int, int]:
    """Return the number of layers, from tensor names, and of experts, from names or shapes."""
    layers = experts = 0
    for name, tensor in layout.items():
        numbers = [int(number) + 1 for number in _NUMBER.findall(name)]
        layers = max([layers, *numbers[:1]])
        experts = max([experts, *numbers[1:], *tensor.shape[:1]])
    return layers, experts


def _fields(config: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str, object]]:
    """Yield place, name and value of each field, including nested configurations."""
    for name, value in config.items():
        if isinstance(value, dict) and name.endswith("_config") and prefix.count(".") < 2:
            yield from _fields(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", name, value


def _check(folder: Path, place: str, value: object, most: int, what: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise WeightsRefused(f"{folder}/config.json: {place} is {value!r:.50}, which is not a size")
    if value > most:
        raise _refused(folder, place, value, f"{most} {what}")


def _refused(folder: Path, place: str, value: int, found: str) -> WeightsRefused:
    return WeightsRefused(
        f"{folder}/config.json: {place} is {value:,}, and the weights have {found}",
        hint="config.json belongs to other weights, or was changed",
    )
