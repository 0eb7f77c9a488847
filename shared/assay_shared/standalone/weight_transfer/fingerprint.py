"""Fingerprint of a tensor: a digest of every entry, computed on its device, additive over pieces.

The fingerprint is the sum, modulo 2^64, over all entries of bits(entry) * odd(row) * odd'(column).
bits(entry) are the entry's bits as a signed integer; odd and odd' are splitmix64 (Steele, Lea and
Flood, OOPSLA 2014) with the lowest bit set. An odd factor is invertible, so any change of a single
entry is found. Swapped entries, transposes and misplaced entries get other factors. They are missed
with a chance of 2^-40 if float32 entries end in many zeros, and with a far smaller chance
otherwise. The fingerprint finds corruption and mix-ups, not forgery: a forger can choose the
entries of two tensors to give the same sum.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import groupby

import torch

#: A tensor, or a piece of one from a row and a column on. A vector counts as a single column; of
#: more than two axes, all after the first count as columns.
Piece = tuple[torch.Tensor, int, int]

#: Entries per block of torch's operations: each takes 8 bytes during the multiplication.
BLOCK_ENTRIES = 2**24
#: Bytes of one kernel's pieces. A piece may be a copy, and lives until its kernel has begun.
BATCH_BYTES = 2**29
#: Factors of more rows or columns are not kept, nor of more shapes: 2 MiB each.
MAX_KEPT_FACTORS, MAX_KEPT_SHAPES = 2**18, 64
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
ROW_SALT, COLUMN_SALT = 0x243F6A8885A308D3, 0x13198A2E03707344
#: Of splitmix64.
STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def fingerprint(
    tensor: torch.Tensor,
    first_row: int = 0,
    first_column: int = 0,
    block_entries: int = BLOCK_ENTRIES,
) -> int:
    """Return the fingerprint of a tensor, or of a piece from `first_row` and `first_column` on.

    `add_up` combines the fingerprints of disjoint pieces. The result does not depend on
    `block_entries`.
    """
    found = fingerprint_sums([(tensor, first_row, first_column)], block_entries)
    return int(found.item()) % 2**64


def fingerprints(pieces: Iterable[Piece]) -> list[int]:
    """Return the fingerprints of pieces of one device.

    It waits for the device only once: processes that share a GPU take turns at each wait.
    """
    return [value % 2**64 for value in fingerprint_sums(pieces).tolist()]


def fingerprint_sums(pieces: Iterable[Piece], block_entries: int = BLOCK_ENTRIES) -> torch.Tensor:
    """Return the fingerprints, modulo 2^64, as int64 (pieces,) on the pieces' device.

    It does not wait for the device. Those of disjoint pieces of a tensor may be summed.

    A GPU sums many pieces in one kernel, where it can: a model has hundreds of tensors, and to
    start a kernel for each takes longer than to read them.
    """
    factors = Factors()
    found: list[torch.Tensor] = []
    for is_for_kernel, batch in _batches(pieces):
        device = batch[0][0].device
        kernel = _kernel(device) if is_for_kernel else None
        if kernel is not None:
            found.append(kernel(batch))
        else:
            found += [block_sum(*piece, block_entries, factors).reshape(1) for piece in batch]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64)


def _batches(pieces: Iterable[Piece]) -> Iterator[tuple[bool, list[Piece]]]:
    """Yield neighbouring pieces with entries of one size, and if a kernel can read them."""
    for (is_for_kernel, _), group in groupby(pieces, _kind):
        batch: list[Piece] = []
        num_bytes = 0
        for piece in group:
            batch.append(piece)
            num_bytes += piece[0].nbytes
            if num_bytes >= BATCH_BYTES or not is_for_kernel:
                yield is_for_kernel, batch
                batch, num_bytes = [], 0
        if batch:
            yield is_for_kernel, batch


def _kind(piece: Piece) -> tuple[bool, int]:
    tensor = piece[0]
    is_for_kernel = tensor.is_cuda and tensor.is_contiguous() and tensor.numel() > 0
    return is_for_kernel, tensor.element_size()


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bits of a tensor's entries as integers (rows, columns)."""
    rows = _rows(tensor)
    num_columns = rows.numel() // rows.shape[0]
    return rows.reshape(rows.shape[0], num_columns).view(BITS[tensor.element_size()])


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with an axis of rows at least."""
    return tensor.detach().reshape(1, 1) if tensor.ndim == 0 else tensor.detach()


def block_sum(
    tensor: torch.Tensor,
    first_row: int,
    first_column: int,
    block_entries: int = BLOCK_ENTRIES,
    factors: "Factors | None" = None,
) -> torch.Tensor:
    """Return the fingerprint of a piece as an int64 scalar, by torch's operations."""
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    if tensor.numel() == 0:
        return total
    factors, rows = factors or Factors(), _rows(tensor)
    num_rows, num_columns = rows.shape[0], rows.numel() // rows.shape[0]
    columns_at_once = min(num_columns, block_entries)
    rows_at_once = max(1, block_entries // columns_at_once)
    odd_R = factors.odd(first_row, num_rows, ROW_SALT, tensor.device)
    odd_C = factors.odd(first_column, num_columns, COLUMN_SALT, tensor.device)
    for row in range(0, num_rows, rows_at_once):
        bits_RC = bits_of(rows[row : row + rows_at_once])
        for column in range(0, num_columns, columns_at_once):
            end = column + columns_at_once
            sums_R = (bits_RC[:, column:end] * odd_C[column:end]).sum(dim=1)
            total += (sums_R * odd_R[row : row + rows_at_once]).sum()
    return total


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
def _kernel(device: torch.device) -> Callable[[Sequence[Piece]], torch.Tensor] | None:
    """Return the sums of pieces by one kernel; None if this GPU has none."""
    if find_spec("triton") is None:
        return None
    from .fingerprint_kernel import sum_pieces, works_on

    return sum_pieces if works_on(device) else None


def _odd(first: int, count: int, salt: int, device: torch.device) -> torch.Tensor:
    """Return int64 (count,): splitmix64 of first, first + 1, ..., each made odd. Products wrap."""
    index = torch.arange(first + 1, first + 1 + count, dtype=torch.int64, device=device)
    x = index * signed(STEP) + signed(salt)
    x = (x ^ _shifted(x, 30)) * signed(FIRST)
    x = (x ^ _shifted(x, 27)) * signed(SECOND)
    odd: torch.Tensor = (x ^ _shifted(x, 31)) | 1
    return odd


def _shifted(x: torch.Tensor, places: int) -> torch.Tensor:
    """Return `x` shifted right, with zeros from the left."""
    shifted: torch.Tensor = (x >> places) & (2 ** (64 - places) - 1)
    return shifted


def signed(value: int) -> int:
    """Return the int64 with the bits of this uint64."""
    return value - 2**64 if value >= 2**63 else value
