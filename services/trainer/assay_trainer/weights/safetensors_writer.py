"""Writes a model's weights as safetensors files, several files at once.

The library's writer never releases the interpreter, so it writes file after file: 16 s for 15 GB
into memory. Here each thread copies, hashes and writes without the interpreter.
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import split_torch_state_dict_into_shards
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from assay_shared.errors import InvalidInput
from assay_shared.weights.safetensors import DTYPES, write_header
from assay_trainer.weights.adapter import whole_state
from assay_trainer.weights.served_dtype import as_served, served_dtype
from assay_trainer.weights.sharded import Shards, shards_of

_SHARD_SIZE = "500MB"
_MAX_THREADS = 32
#: Files whose weights are gathered from several processes and still have to be written.
_MAX_GATHERED_FILES = 3
#: What a thread keeps of a GPU's memory in the host's, pinned.
_PIECE_BYTES = 32 << 20
_NAMES = {getattr(torch, dtype): name for name, dtype in DTYPES.items()}


def save_model(model: PreTrainedModel, folder: Path) -> dict[str, str]:
    """Write config.json, generation_config.json, the weights and their index, in the served type.

    Returns:
        The SHA-256 of each weight file by its name, computed from the tensors in memory.

    Raises:
        InvalidInput: a tensor has a type unknown to safetensors.
    """
    _write_configs(model, folder)
    tensors, shards = _written(model)
    plan = split_torch_state_dict_into_shards(tensors, max_shard_size=_SHARD_SIZE)
    if plan.is_sharded:
        index = {"metadata": plan.metadata, "weight_map": plan.tensor_to_filename}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    files = {
        name: {one: tensors[one] for one in names}
        for name, names in plan.filename_to_tensors.items()
    }
    return _write_all(folder, files, model, shards)


def _written(model: PreTrainedModel) -> tuple[dict[str, torch.Tensor], Shards | None]:
    """Return the tensors by their names in a checkpoint, and the source of values if they lack.

    Where a checkpoint has weights in another form, as of some mixtures of experts, they are
    gathered here, in the host's memory.
    """
    named, shards = as_served(model, named_weights(model)), shards_of(model)
    tensors = revert_weight_conversion(model, dict(named))
    if shards is None or all(named.get(name) is one for name, one in tensors.items()):
        return tensors, shards
    for name, _ in model.named_parameters():
        named[name] = shards.gather([name])[name].cpu()
    return revert_weight_conversion(model, named), None


def _write_all(
    folder: Path,
    files: Mapping[str, Mapping[str, torch.Tensor]],
    model: PreTrainedModel,
    shards: Shards | None,
) -> dict[str, str]:
    """Write the files and return their digests; a few at a time if they have to be gathered."""
    sharded = {name for name, _ in model.named_parameters()} if shards is not None else set()
    running: deque[Future[str]] = deque()
    digests: list[str] = []
    with ThreadPoolExecutor(_MAX_THREADS, "files") as pool:
        for file, tensors in files.items():
            values = dict(tensors)
            if shards is not None:
                if len(running) == _MAX_GATHERED_FILES:
                    digests.append(running.popleft().result())
                values |= shards.gather(sharded & values.keys())
            running.append(pool.submit(_write, folder / file, values))
        return dict(zip(files, [*digests, *(one.result() for one in running)], strict=True))


def _write_configs(model: PreTrainedModel, folder: Path) -> None:
    """Write config.json with the type of the written weights, and generation_config.json.

    `save_pretrained` also writes the weights of a model in 4 bits, even if it is given none. The
    library's release is left out of both: a policy has one digest, whichever release wrote it.
    """
    model.config.architectures = [type(model).__name__.removeprefix("FSDP")]
    model.config.save_pretrained(folder)
    if model.can_generate():
        model.generation_config.save_pretrained(folder)
        file = folder / "generation_config.json"
        _write_json(file, _without_release(file))
    file, dtype = folder / "config.json", served_dtype(model)
    config = _without_release(file)
    if config.get("quantization_config", {}).get("quant_method") == "bitsandbytes":
        del config["quantization_config"]  # they are written as they were before
    config["dtype"] = str(dtype).removeprefix("torch.")
    _write_json(file, config)


def _without_release(file: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(file.read_text())
    config.pop("transformers_version", None)
    return config


def _write_json(file: Path, config: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def named_weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return the weights by the base model's names, with the adapter merged and no tied copies."""
    found: dict[tuple[Any, ...], str] = {}
    weights = {}
    for name, tensor in whole_state(model).items():
        place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape)
        if found.setdefault(place, name) == name:
            weights[name] = tensor.detach()
    return weights


def _write(file: Path, tensors: Mapping[str, torch.Tensor]) -> str:
    """Write a file and return its SHA-256."""
    # The widest entries first: each then lies at a multiple of its width.
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    digest = hashlib.sha256()
    with file.open("wb") as out:
        for piece in _pieces({name: tensors[name] for name in names}):
            digest.update(piece)
            out.write(piece)
    return digest.hexdigest()


def _pieces(tensors: Mapping[str, torch.Tensor]) -> Iterator[memoryview | bytes]:
    """Yield a file's bytes, in order."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise InvalidInput(f"{name}: safetensors keeps no {tensor.dtype}")
    yield write_header({n: (_NAMES[t.dtype], tuple(t.shape)) for n, t in tensors.items()})
    for tensor in tensors.values():
        yield from _bytes_of(tensor)


def _bytes_of(tensor: torch.Tensor) -> Iterator[memoryview]:
    """Yield a tensor's bytes; a piece is valid until the next."""
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    if not flat.is_cuda:
        yield flat.numpy().data
        return
    buffer = torch.empty(min(_PIECE_BYTES, flat.numel()), dtype=torch.uint8, pin_memory=True)
    for begin in range(0, flat.numel(), _PIECE_BYTES):
        piece = flat[begin : begin + _PIECE_BYTES]
        buffer[: piece.numel()].copy_(piece)
        yield buffer.numpy().data[: piece.numel()]
