"""The share of a model's weights that a stage of a run changed, from the files alone."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from assay_shared.errors import WeightsRefused
from assay_shared.runs.run_folder import write_json
from assay_shared.weights.checkpoint import weight_files
from assay_trainer.evaluate.policy.places import STAGES

#: Bytes of a weight by its type in safetensors.
_WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
_MAX_HEADER = 100 * 2**20
_CHUNK_BYTES = 64 * 2**20


@dataclass(frozen=True)
class _Tensor:
    """Where a tensor's bytes are."""

    file: Path
    start: int
    num_bytes: int
    width: int


def moved_shares(run: Path, stored: Path) -> dict[str, float]:
    """Return the share of the weights that each stage of a run changed, by the stage's name.

    `all` is the share from the first model to the last. The result is kept in the file `stored`.
    """
    models = [run / "models" / name for name in STAGES]
    there = [one for one in models if one.is_dir()]
    if stored.exists():
        found: dict[str, float] = json.loads(stored.read_bytes())
        return found
    if len(there) < 2:
        return {}
    shares = {after.name: moved_share(before, after) for before, after in pairwise(there)}
    shares["all"] = moved_share(there[0], there[-1])
    write_json(stored, dict(shares))
    return shares


def moved_share(before: Path, after: Path) -> float:
    """Return the share of the weights of `after` that differ from those of `before`.

    A weight without a counterpart counts as moved.

    Raises:
        WeightsRefused: a folder has no weights, or they cannot be read.
    """
    ours, theirs = _tensors(after), _tensors(before)
    moved = total = 0
    for name, one in ours.items():
        number = one.num_bytes // one.width
        total += number
        other = theirs.get(name)
        if other is None or (other.num_bytes, other.width) != (one.num_bytes, one.width):
            moved += number
        else:
            moved += sum(
                _num_different(a, b) for a, b in zip(_chunks(one), _chunks(other), strict=True)
            )
    return moved / total if total else 0.0


def _num_different(ours: np.ndarray, theirs: np.ndarray) -> int:
    return int(np.count_nonzero(ours != theirs))


def _tensors(folder: Path) -> dict[str, _Tensor]:
    found: dict[str, _Tensor] = {}
    for file in weight_files(folder):
        with file.open("rb") as content:
            length = int.from_bytes(content.read(8), "little")
            if length > _MAX_HEADER:
                raise WeightsRefused(f"{file} is not a safetensors file")
            header = json.loads(content.read(length))
        for name, one in header.items():
            if name == "__metadata__":
                continue
            first, last = one["data_offsets"]
            width = _WIDTHS.get(one["dtype"], 1)
            found[name] = _Tensor(file, 8 + length + first, last - first, width)
    return found


def _chunks(tensor: _Tensor) -> Iterator[np.ndarray]:
    """Yield a tensor's weights as unsigned integers, a part at a time."""
    kind = np.dtype(f"<u{tensor.width}")
    with tensor.file.open("rb") as content:
        content.seek(tensor.start)
        left = tensor.num_bytes
        while left > 0:
            part = content.read(min(left, _CHUNK_BYTES))
            if not part:
                raise WeightsRefused(f"{tensor.file} is cut off")
            left -= len(part)
            yield np.frombuffer(part, dtype=kind)
