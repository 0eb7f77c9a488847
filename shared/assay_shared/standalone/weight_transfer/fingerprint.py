"""Fingerprint of a tensor: a digest of every entry, computed on its device, additive over pieces.

The fingerprint is the sum, modulo 2^64, over all entries of bits(entry) * odd(row) * odd'(column).
bits(entry) are the entry's bits as a signed integer; odd and odd' are splitmix64 (Steele, Lea and
Flood, OOPSLA 2014) with the lowest bit set. An odd factor is invertible, so any change of a single
entry is found. Swapped entries, transposes and misplaced entries get other factors. They are missed
with a chance of 2^-40 if float32 entries end in many zeros, and with a far smaller chance
otherwise. The fingerprint finds corruption and mix-ups, not forgery: a forger can choose the
entries of two tensors to give the same sum.
"""

from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec

import torch

#: Entries per block: each takes 8 bytes during the multiplication.
BLOCK_ENTRIES = 2**24
#: Factors of more rows or columns are not kept, nor of more shapes: 2 MiB each.
MAX_KEPT_FACTORS, MAX_KEPT_SHAPES = 2**18, 64
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ROW_SALT, _COLUMN_SALT = 0x243F6A8885A308D3, 0x13198A2E03707344
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def fingerprint(
    tensor: torch.Tensor,
    first_row: int = 0,
    first_column: int = 0,
    block_entries: int = BLOCK_ENTRIES,
    factors: "Factors | None" = None,
) -> int:
    """Return the fingerprint of a tensor, or of a piece from `first_row` and `first_column` on.

    A vector counts as a single column. If a tensor has more than two axes, all axes after the first
    count as columns. `add_up` combines the fingerprints of disjoint pieces. The result does not
    depend on `block_entries`.
    """
    found = fingerprint_sum(tensor, first_row, first_column, block_entries, factors)
    return int(found.item()) % 2**64


def fingerprint_sum(
    tensor: torch.Tensor,
    first_row: int = 0,
    first_column: int = 0,
    block_entries: int = BLOCK_ENTRIES,
    factors: "Factors | None" = None,
) -> torch.Tensor:
    """Return the fingerprint as an int64 scalar on the tensor's device, without waiting for it.

    Scalars of disjoint pieces may be summed, and the sum taken modulo 2^64. `factors` keeps the odd
    numbers of rows and columns for tensors of the same shape. A GPU sums in one kernel, where it
    can, and without blocks.
    """
    odd = _odd if factors is None else factors.odd
    if tensor.numel() == 0:
        return torch.zeros((), dtype=torch.int64, device=tensor.device)
    rows = tensor.detach().reshape(1, 1) if tensor.ndim == 0 else tensor.detach()
    num_rows, num_columns = rows.shape[0], rows.numel() // rows.shape[0]
    columns_at_once = min(num_columns, block_entries)
    rows_at_once = max(1, block_entries // columns_at_once)
    odd_R = odd(first_row, num_rows, _ROW_SALT, tensor.device)
    odd_C = odd(first_column, num_columns, _COLUMN_SALT, tensor.device)
    kernel = _kernel(rows.device) if rows.is_cuda and rows.is_contiguous() else None
    if kernel is not None:
        bits_RC = rows.reshape(num_rows, num_columns).view(_BITS[tensor.element_size()])
        return kernel(bits_RC, odd_R, odd_C)
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for row in range(0, num_rows, rows_at_once):
        block = rows[row : row + rows_at_once]
        bits_RC = block.reshape(block.shape[0], num_columns).view(_BITS[tensor.element_size()])
        for column in range(0, num_columns, columns_at_once):
            end = column + columns_at_once
            sums_R = (bits_RC[:, column:end] * odd_C[column:end]).sum(dim=1)
            total += (sums_R * odd_R[row : row + rows_at_once]).sum()
    return total


def fingerprints(pieces: Iterable[tuple[torch.Tensor, int, int]]) -> list[int]:
    """Return the fingerprints of pieces (tensor, first row, first column) of one device.

    It waits for the device only once: processes that share a GPU take turns at each wait.
    """
    factors = Factors()
    sums = [fingerprint_sum(*place, factors=factors) for place in pieces]
    return [value % 2**64 for value in torch.stack(sums).tolist()] if sums else []


class Factors:
    """The odd numbers of rows and columns, kept by their count: a model has few shapes."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int, int, torch.device], torch.Tensor] = {}

    def odd(self, first: int, count: int, salt: int, device: torch.device) -> torch.Tensor:
        """Return int64 (count,), made at the first call."""
        if count > MAX_KEPT_FACTORS:
            return _odd(first, count, salt, device)
        key = (first, count, salt, device)
        if key not in self._kept:
            if len(self._kept) == MAX_KEPT_SHAPES:
                self._kept.clear()
            self._kept[key] = _odd(first, count, salt, device)
        return self._kept[key]


def add_up(fingerprints: list[int]) -> int:
    """Return the fingerprint of a tensor from the fingerprints of its pieces."""
    return sum(fingerprints) % 2**64


def as_text(value: int) -> str:
    """Return a fingerprint as 16 hexadecimal digits."""
    return f"{value:016x}"


@cache
def _kernel(device: torch.device) -> Callable[..., torch.Tensor] | None:
    """Return the sum in one kernel; None if this GPU has none."""
    if find_spec("triton") is None:
        return None
    from .fingerprint_kernel import sum_products, works_on

    return sum_products if works_on(device) else None


def _odd(first: int, count: int, salt: int, device: torch.device) -> torch.Tensor:
    """Return int64 (count,): splitmix64 of first, first + 1, ..., each made odd. Products wrap."""
    index = torch.arange(first + 1, first + 1 + count, dtype=torch.int64, device=device)
    x = index * _signed(_STEP) + _signed(salt)
    x = (x ^ _shifted(x, 30)) * _signed(_FIRST)
    x = (x ^ _shifted(x, 27)) * _signed(_SECOND)
    odd: torch.Tensor = (x ^ _shifted(x, 31)) | 1
    return odd


def _shifted(x: torch.Tensor, places: int) -> torch.Tensor:
    """Return `x` shifted right, with zeros from the left."""
    shifted: torch.Tensor = (x >> places) & (2 ** (64 - places) - 1)
    return shifted


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
