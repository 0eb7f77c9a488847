"""The weights of a folder, written again in files of a bounded size."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from assay_shared.errors import InfrastructureError, WeightsRefused
from assay_shared.weights.checkpoint import INDEX, WEIGHTS, weight_files
from assay_shared.weights.safetensors import DTYPES, TensorHeader, read_header, write_header

#: The most bytes of a file of weights.
FILE_BYTES = 5 * 10**9
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_FLOATS = ("F64", "F32", "BF16", "F16")
#: Types that a network computes in.
_COMPUTED = ("float64", "float32", "bfloat16", "float16")
#: The matrix at the end of the network, and the names of the one at its beginning.
_HEAD = "lm_head.weight"
_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight")
_PIECE_ITEMS = 2**24


class NotHandedOff(InfrastructureError):
    """The output folder could not be written."""


@dataclass(frozen=True)
class PlannedTensor:
    """A weight in a file, and the type that it is written in."""

    file: Path
    header: TensorHeader
    dtype: str

    @property
    def num_entries(self) -> int:
        return math.prod(self.header.shape)

    @property
    def written(self) -> TensorHeader:
        return TensorHeader(self.dtype, self.header.shape, 0)


@dataclass(frozen=True)
class WrittenWeights:
    """The weights of the output: SHA-256 by file, and their number and types."""

    digests: dict[str, str]
    num_tensors: int
    num_entries: int
    num_bytes: int
    #: Entries by type.
    dtypes: dict[str, int]
    #: Entries of the source, with a copy of tied weights if it holds one.
    num_source_entries: int
    #: Weights left out because another one has the same values.
    tied: tuple[str, ...]
    is_rounded: bool


def read_weights(folder: Path, dtype: str | None) -> dict[str, PlannedTensor]:
    """Return the weights of a folder by name, to be written in `dtype`; without it, as they are.

    Raises:
        WeightsRefused: a file is missing, cut off, or no safetensors file.
    """
    found: dict[str, PlannedTensor] = {}
    for file in weight_files(folder):
        for name, header in read_header(file).items():
            written = header.dtype
            if dtype is not None and written in _FLOATS:
                written = _NAMES[dtype]
            found[name] = PlannedTensor(file, header, written)
    if not found:
        raise WeightsRefused(f"{folder} has no weights")
    return found


def embedding_of(weights: Mapping[str, PlannedTensor]) -> str | None:
    """Return the name of the matrix with a row for each token; None if no usual name is there."""
    return next((name for name in weights if name.endswith(_EMBEDDINGS)), None)


def without_tied(
    weights: Mapping[str, PlannedTensor], config: Mapping[str, Any]
) -> tuple[dict[str, PlannedTensor], tuple[str, ...]]:
    """Return the weights without a head that is tied to the embedding, and the names left out.

    Raises:
        WeightsRefused: config.json ties the head, and its values are other ones.
    """
    text: Any = config.get("text_config") or {}
    is_tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings"))
    embedding = embedding_of(weights)
    if not is_tied or _HEAD not in weights or embedding is None:
        return dict(weights), ()
    if not torch.equal(_load(weights[_HEAD], _HEAD), _load(weights[embedding], embedding)):
        raise WeightsRefused(
            f"config.json ties {_HEAD} to {embedding}, and their values differ",
            hint="set tie_word_embeddings to false in the source's config.json",
        )
    return {name: one for name, one in weights.items() if name != _HEAD}, (_HEAD,)


def write_weights(
    weights: Mapping[str, PlannedTensor],
    config: Mapping[str, Any],
    into: Path,
    on_bytes: Callable[[int], None] = lambda number: None,
    file_bytes: int = FILE_BYTES,
) -> WrittenWeights:
    """Write the weights and, of several files, their index; one weight at a time is in memory.

    Raises:
        WeightsRefused: a weight has an entry that is infinite or not a number; nothing is kept.
        NotHandedOff: the disk is full or read-only.
    """
    kept, tied = without_tied(weights, config)
    files = _planned(kept, file_bytes)
    digests = {
        name: _write({one: kept[one] for one in names}, into / name, on_bytes)
        for name, names in files.items()
    }
    total = sum(one.written.num_bytes for one in kept.values())
    if len(files) > 1:
        placed = {one: name for name, names in files.items() for one in names}
        index = {"metadata": {"total_size": total}, "weight_map": placed}
        (into / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    dtypes: dict[str, int] = {}
    for one in kept.values():
        name = DTYPES.get(one.dtype, one.dtype)
        dtypes[name] = dtypes.get(name, 0) + one.num_entries
    return WrittenWeights(
        digests=digests,
        num_tensors=len(kept),
        num_entries=sum(one.num_entries for one in kept.values()),
        num_bytes=total,
        dtypes=dtypes,
        num_source_entries=sum(one.num_entries for one in weights.values()),
        tied=tied,
        is_rounded=any(one.dtype != one.header.dtype for one in kept.values()),
    )


def main_dtype(written: WrittenWeights, config: Mapping[str, Any]) -> str:
    """Return the type of most entries; of quantized weights, the one that config.json names."""
    wide = {name: number for name, number in written.dtypes.items() if name in _COMPUTED}
    if config.get("quantization_config") or not wide:
        return str(config.get("dtype", config.get("torch_dtype")) or "auto")
    return max(wide, key=lambda name: wide[name])


def _planned(weights: Mapping[str, PlannedTensor], file_bytes: int) -> dict[str, list[str]]:
    """Return the names of the weights of each file."""
    groups: list[list[str]] = [[]]
    size = 0
    for name, one in weights.items():
        if groups[-1] and size + one.written.num_bytes > file_bytes:
            groups.append([])
            size = 0
        groups[-1].append(name)
        size += one.written.num_bytes
    if len(groups) == 1:
        return {WEIGHTS: groups[0]}
    return {
        f"model-{number:05d}-of-{len(groups):05d}.safetensors": names
        for number, names in enumerate(groups, 1)
    }


def _write(
    weights: Mapping[str, PlannedTensor], file: Path, on_bytes: Callable[[int], None]
) -> str:
    """Write a file and return its SHA-256."""
    # The widest entries first: each then lies at a multiple of its width.
    order = sorted(weights, key=lambda name: (-_width(weights[name].dtype), name))
    digest = hashlib.sha256()
    try:
        with file.open("wb") as out:
            head = write_header({n: (weights[n].dtype, weights[n].header.shape) for n in order})
            digest.update(head)
            out.write(head)
            for name in order:
                for values in _pieces(name, weights[name]):
                    digest.update(values)
                    out.write(values)
                    on_bytes(len(values))
    except OSError as error:
        raise NotHandedOff(f"{file} could not be written: {error.strerror or error}") from None
    return digest.hexdigest()


def _pieces(name: str, one: PlannedTensor) -> Iterator[memoryview]:
    """Yield a weight's bytes in its new type, after a check that its entries are finite."""
    flat = _load(one, name).reshape(-1)
    dtype = getattr(torch, DTYPES[one.dtype])
    for piece in flat.split(_PIECE_ITEMS) if flat.numel() else ():
        if piece.is_floating_point():
            _check_finite(name, one, piece, piece.to(dtype))
        yield piece.to(dtype).contiguous().view(torch.uint8).numpy().data


def _check_finite(name: str, one: PlannedTensor, was: torch.Tensor, now: torch.Tensor) -> None:
    # Types of 8 bits have no test for infinities.
    if not bool(torch.isfinite(was.float() if was.itemsize == 1 else was).all()):
        raise WeightsRefused(
            f"{one.file}: {name} has entries that are infinite or not a number",
            hint="the training diverged: hand off an earlier checkpoint",
        )
    if not bool(torch.isfinite(now.float() if now.itemsize == 1 else now).all()):
        raise WeightsRefused(
            f"{one.file}: {name} has entries too large for {DTYPES[one.dtype]}",
            field="--dtype",
            hint="bfloat16 has the range of float32",
        )


def _load(one: PlannedTensor, name: str) -> torch.Tensor:
    try:
        with safe_open(one.file, "pt") as content:
            found: torch.Tensor = content.get_tensor(name)
            return found
    except SafetensorError as error:
        raise WeightsRefused(f"{one.file} cannot be read: {error}") from None


def _width(dtype: str) -> int:
    return TensorHeader(dtype, (1,), 0).num_bytes
