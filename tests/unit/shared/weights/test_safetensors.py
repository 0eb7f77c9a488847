import struct
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from assay_shared.errors import WeightsRefused
from assay_shared.weights.safetensors import DTYPES, TensorHeader, read_header, write_header


def test_the_librarys_headers_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    tensors = {name: torch.zeros(2, 3, dtype=getattr(torch, t)) for name, t in DTYPES.items()}
    save_file(tensors, file)
    found = read_header(file)
    assert {name: (one.dtype, one.shape) for name, one in found.items()} == {
        name: (name, (2, 3)) for name in DTYPES
    }
    assert sum(one.num_bytes for one in found.values()) == sum(t.nbytes for t in tensors.values())
    assert min(one.start for one in found.values()) > 8


def test_the_library_reads_written_headers(tmp_path: Path) -> None:
    file = tmp_path / "b.safetensors"
    head = write_header({"w": ("F32", (2, 2)), "b": ("BF16", (3,)), "e": ("F16", (0,))})
    file.write_bytes(head + bytes(16 + 6))
    with safe_open(file, "pt") as content:
        shapes = {name: tuple(content.get_tensor(name).shape) for name in content.keys()}  # noqa: SIM118  # not a dict
    assert shapes == {"w": (2, 2), "b": (3,), "e": (0,)}
    assert read_header(file)["b"] == TensorHeader("BF16", (3,), len(head) + 16)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cut off or is not"),
        (b"12345678", "cut off or is not"),
        (struct.pack("<Q", 2**62) + b"{}", "cut off or is not"),
        (struct.pack("<Q", 2) + b"[]", "header that cannot be read"),
        (struct.pack("<Q", 8) + b'{"a": 1}', "header that cannot be read"),
        (write_header({"a": ("F32", (4,))}) + bytes(15), "cut off: it has"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "c.safetensors"
    file.write_bytes(content)
    with pytest.raises(WeightsRefused, match=reason):
        read_header(file)


def test_a_header_nested_without_end_is_refused(tmp_path: Path) -> None:
    head = b"[" * 200_000
    (tmp_path / "d.safetensors").write_bytes(struct.pack("<Q", len(head)) + head)
    with pytest.raises(WeightsRefused, match="header that cannot be read"):
        read_header(tmp_path / "d.safetensors")
