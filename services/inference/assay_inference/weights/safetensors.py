"""Reading of safetensors files: the tensors in their headers, single entries, and checks."""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from assay_shared.errors import WeightsRefused
from assay_shared.weights.checkpoint import weight_files
from assay_shared.weights.safetensors import DTYPES, TensorHeader, read_header

Float32s = npt.NDArray[np.float32]

#: Mask of the bits that are all set in an infinity and in a NaN (IEEE 754); for float8_e4m3fn
#: (arXiv 2209.05433) only in a NaN.
_NOT_FINITE: Mapping[str, np.unsignedinteger[Any]] = {
    "F64": np.uint64(0x7FF << 52),
    "F32": np.uint32(0xFF << 23),
    "F16": np.uint16(0x1F << 10),
    "BF16": np.uint16(0xFF << 7),
    "F8_E4M3": np.uint8(0x7F),
    "F8_E5M2": np.uint8(0x1F << 2),
}
_PIECE_BYTES = 8 * 2**20
_MAX_THREADS = 32
#: numpy types of the stored numbers; numpy has no bfloat16.
_STORED = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
_NAMES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True)
class Tensor(TensorHeader):
    """A tensor in the file `file`."""

    file: Path

    def stored_as(self, name: str) -> tuple[str, str, int, str, tuple[int, ...]]:
        """Return the facts a worker needs to read the tensor: name, file, offset, type, shape."""
        return (
            name,
            str(self.file.resolve()),
            self.start,
            DTYPES.get(self.dtype, self.dtype),
            self.shape,
        )

    def stored(self) -> npt.NDArray[np.uint8]:
        """Return all of the tensor's bytes in the file, memory-mapped."""
        content: npt.NDArray[np.uint8] = np.memmap(
            self.file, np.uint8, "r", self.start, (self.num_bytes,)
        )
        return content

    def entries(
        self, rows: list[int], columns: list[int]
    ) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]] | None":
        """Return the entries as float32 (rows, columns); a vector is a single column.

        None if numbers of the tensor's type or shape are not read.
        """
        if self.dtype not in _STORED or len(self.shape) not in (1, 2):
            return None
        shape = (self.shape[0], math.prod(self.shape[1:]))
        stored = np.memmap(self.file, _STORED[self.dtype], "r", self.start, shape)
        taken = stored[np.ix_(rows, columns)]
        if self.dtype == "BF16":
            return (taken.astype(np.uint32) << 16).view(np.float32)
        return taken.astype(np.float32)


def read_layout(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint by name.

    Raises:
        WeightsRefused: a file is cut off or is not a safetensors file.
    """
    found: dict[str, Tensor] = {}
    for file in weight_files(folder):
        for name, stored in read_header(file).items():
            found[name] = Tensor(stored.dtype, stored.shape, stored.start, file)
    return found


def check_finite(layout: Mapping[str, Tensor]) -> None:
    """Check all weights for infinities and NaN. It reads the whole files.

    Raises:
        WeightsRefused: a tensor has such an entry; names the first such tensor.
    """
    with ThreadPoolExecutor(_MAX_THREADS, "finite") as pool:
        finite = pool.map(_is_finite, layout.values())
        for name, good in zip(layout, finite, strict=True):
            if not good:
                raise WeightsRefused(f"{name} has entries that are infinite or not a number")


def _is_finite(tensor: Tensor) -> bool:
    if tensor.dtype not in _NOT_FINITE or tensor.num_bytes == 0:
        return True
    mask = _NOT_FINITE[tensor.dtype]
    bits = tensor.stored().view(mask.dtype)
    size = _PIECE_BYTES // mask.itemsize
    pieces = (bits[first : first + size] for first in range(0, len(bits), size))
    return not any(bool(((piece & mask) == mask).any()) for piece in pieces)


def check_same_layout(served: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> None:
    """Raise WeightsRefused unless both have the same tensors, in name, shape and type."""
    for name in sorted(served.keys() | new.keys()):
        before, after = served.get(name), new.get(name)
        if before is None or after is None:
            raise WeightsRefused(
                f"{name} is {'missing' if after is None else 'new'}: this is another architecture",
                hint="an engine takes new weights of the model that it was started with",
            )
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            raise WeightsRefused(
                f"{name} is {after.dtype} {list(after.shape)}, where {before.dtype} "
                f"{list(before.shape)} is served: this is another architecture",
                hint="an engine takes new weights of the model that it was started with",
            )


def rounded(values: Float32s, dtype: str) -> list[float]:
    """Return the values rounded to an engine's dtype (to nearest, ties to even), row by row."""
    if dtype == "float16":
        values = values.astype(np.float16).astype(np.float32)
    elif dtype == "bfloat16":
        values = (_bfloat16(values).astype(np.uint32) << 16).view(np.float32)
    return [float(value) for value in values.flatten()]


def kept(stored: npt.NDArray[np.uint8], stored_as: str, dtype: str) -> npt.NDArray[np.uint8]:
    """Return the stored bytes of a tensor, converted to an engine's dtype.

    Raises:
        WeightsRefused: numbers of this type are not read.
    """
    if _NAMES.get(stored_as) == dtype or dtype == "auto":
        return stored
    if stored_as not in _STORED or dtype not in _NAMES.values():
        raise WeightsRefused(f"{stored_as} numbers cannot be compared with {dtype} ones")
    values = stored.view(_STORED[stored_as])
    if stored_as == "BF16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    numbers = values.astype(np.float32)
    if dtype == "bfloat16":
        return _bfloat16(numbers).view(np.uint8)
    return numbers.astype(dtype).view(np.uint8)


def _bfloat16(values: Float32s) -> npt.NDArray[np.uint16]:
    bits = values.view(np.uint32)
    bits = bits + 0x7FFF + ((bits >> 16) & 1)
    return (bits >> 16).astype(np.uint16)
