"""Headers of safetensors files, read and written: eight bytes of length, JSON, the tensors."""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_shared.errors import WeightsRefused

#: torch's types by their names in safetensors files.
DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "BF16": "bfloat16",
    "F16": "float16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
_ITEM_BYTES = {
    "F64": 8,
    "F32": 4,
    "BF16": 2,
    "F16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
_INTEGERS = frozenset(("I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"))
_LENGTH = struct.Struct("<Q")
_MAX_HEADER_BYTES = 100 * 2**20


@dataclass(frozen=True)
class TensorHeader:
    """A tensor of a file; `start` is the offset of its first byte in the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * _ITEM_BYTES.get(self.dtype, 0)


def read_header(file: Path) -> dict[str, TensorHeader]:
    """Return the tensors of a file by name, in the header's order.

    Raises:
        WeightsRefused: the file is cut off or is not a safetensors file.
    """
    size = file.stat().st_size
    with file.open("rb") as content:
        head = content.read(_LENGTH.size)
        length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else size
        if length > min(size - _LENGTH.size, _MAX_HEADER_BYTES):
            raise WeightsRefused(f"{file} is cut off or is not a safetensors file")
        try:
            header = json.loads(content.read(length))
            return {
                name: _stored(file, fields, _LENGTH.size + length, size)
                for name, fields in header.items()
                if name != "__metadata__"
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise WeightsRefused(f"{file} has a header that cannot be read: {error}") from error


def check_types(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, TensorHeader]
) -> None:
    """Check that no weight is of integers: a library would cast it. Masks and positions may be so.

    Raises:
        WeightsRefused: one is, and `config` does not say what quantized weights mean; names it.
    """
    if "quantization_config" in config:
        return
    for name, one in tensors.items():
        is_vector = len(one.shape) == 1 and name.endswith(".bias")
        if one.dtype in _INTEGERS and (is_vector or name.endswith(".weight")):
            raise WeightsRefused(
                f"{folder}: {name} has the type {one.dtype}, and config.json has no "
                "quantization_config that says what such weights mean"
            )


def write_header(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """Return the first bytes of a file with these types and shapes, stored in this order."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, (dtype, shape) in tensors.items():
        end = begin + TensorHeader(dtype, shape, 0).num_bytes
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return _LENGTH.pack(len(text)) + text


def _stored(file: Path, fields: Mapping[str, Any], start: int, size: int) -> TensorHeader:
    first, last = fields["data_offsets"]
    shape, dtype = tuple(fields["shape"]), str(fields["dtype"])
    num_bytes = math.prod(shape) * _ITEM_BYTES.get(dtype, 0)
    if start + last > size:
        raise WeightsRefused(f"{file} is cut off: it has {size} bytes, and needs {start + last}")
    if dtype in _ITEM_BYTES and last - first != num_bytes:
        raise WeightsRefused(f"{file} gives {last - first} bytes to {dtype} {list(shape)}")
    return TensorHeader(dtype, shape, start + first)
