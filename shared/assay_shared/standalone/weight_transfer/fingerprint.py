"""A digest of every entry of a tensor, taken where it lies, that can be added up from pieces.

The sum, modulo 2^64, over all entries of bits(entry) * odd(row) * odd'(column), where bits are the
entry's own as a signed integer, and odd and odd' are splitmix64 (Steele, Lea and Flood, OOPSLA
2014) with the lowest bit set. An odd factor can be undone, so any single change of an entry is
found. Swapped entries, transposes and wrong places get other factors and are found but for one
chance in 2^40, where float32 ends in many zeros, and far less else. It finds corruption and
mix-ups. It does not stop anyone who means to deceive: whoever can choose entries can make two
tensors with the same sum.
"""

import torch

#: Entries taken at once: 8 bytes each while they are multiplied.
BLOCK_ENTRIES = 2**24
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ROW_SALT, _COLUMN_SALT = 0x243F6A8885A308D3, 0x13198A2E03707344
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def fingerprint(
    tensor: torch.Tensor,
    first_row: int = 0,
    first_column: int = 0,
    block_entries: int = BLOCK_ENTRIES,
) -> int:
    """Of a tensor, or of the piece of one that begins at `first_row` and `first_column`.

    A vector is one column; of more than two axes, all but the first are one. Pieces that do not
    overlap add up to the whole with `add_up`. The result does not depend on `block_entries`.
    """
    if tensor.numel() == 0:
        return 0
    rows = tensor.detach().reshape(1, 1) if tensor.ndim == 0 else tensor.detach()
    num_rows, num_columns = rows.shape[0], rows.numel() // rows.shape[0]
    columns_at_once = min(num_columns, block_entries)
    rows_at_once = max(1, block_entries // columns_at_once)
    odd_R = _odd(first_row, num_rows, _ROW_SALT, tensor.device)
    odd_C = _odd(first_column, num_columns, _COLUMN_SALT, tensor.device)
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for row in range(0, num_rows, rows_at_once):
        block = rows[row : row + rows_at_once]
        bits_RC = block.reshape(block.shape[0], num_columns).view(_BITS[tensor.element_size()])
        for column in range(0, num_columns, columns_at_once):
            end = column + columns_at_once
            sums_R = (bits_RC[:, column:end] * odd_C[column:end]).sum(dim=1)
            total += (sums_R * odd_R[row : row + rows_at_once]).sum()
    return int(total.item()) % 2**64


def add_up(fingerprints: list[int]) -> int:
    """The fingerprint of a tensor from those of its pieces."""
    return sum(fingerprints) % 2**64


def as_text(value: int) -> str:
    """16 hexadecimal digits."""
    return f"{value:016x}"


def _odd(first: int, count: int, salt: int, device: torch.device) -> torch.Tensor:
    """int64 (count,): splitmix64 of first, first + 1, ..., each made odd. Products wrap."""
    index = torch.arange(first + 1, first + 1 + count, dtype=torch.int64, device=device)
    x = index * _signed(_STEP) + _signed(salt)
    x = (x ^ _shifted(x, 30)) * _signed(_FIRST)
    x = (x ^ _shifted(x, 27)) * _signed(_SECOND)
    odd: torch.Tensor = (x ^ _shifted(x, 31)) | 1
    return odd


def _shifted(x: torch.Tensor, places: int) -> torch.Tensor:
    """Right, with zeros from the left."""
    shifted: torch.Tensor = (x >> places) & (2 ** (64 - places) - 1)
    return shifted


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
