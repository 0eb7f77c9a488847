"""Fingerprints of many pieces by one kernel, which reads each entry once and stores no product.

Needs Triton. Shapes: R rows, C columns, P pieces, T tiles of all pieces.
"""

from collections.abc import Sequence
from itertools import accumulate
from subprocess import SubprocessError

import torch
import triton
import triton.language as tl
from triton.errors import TritonError

from .fingerprint import (
    COLUMN_SALT,
    FIRST,
    ROW_SALT,
    SECOND,
    STEP,
    Piece,
    bits_of,
    block_sum,
    signed,
)

_ROWS, _COLUMNS = 32, 1024
#: If addresses in bytes and rows in entries are multiples of this, loads are of 16 bytes.
_ALIGNED = 16
_ENTRIES = {1: tl.int8, 2: tl.int16, 4: tl.int32, 8: tl.int64}
_STEP, _FIRST, _SECOND = tl.constexpr(STEP), tl.constexpr(FIRST), tl.constexpr(SECOND)
#: Of the table: address, rows, columns, first row, first column, salts of rows and columns, and the
#: number of tiles before this piece.
_FIELDS = tl.constexpr(8)


@triton.jit
def _odd(index, salt):  # type: ignore[no-untyped-def]
    """Return splitmix64 of int64 indices, made odd."""
    x = (index + 1).to(tl.uint64) * _STEP + salt.to(tl.uint64)
    x = (x ^ (x >> 30)) * _FIRST
    x = (x ^ (x >> 27)) * _SECOND
    return ((x ^ (x >> 31)) | 1).to(tl.int64)


@triton.jit  # type: ignore[untyped-decorator]
def _sum_tiles(  # type: ignore[no-untyped-def]
    table_PF,
    pieces_T,
    sums_P,
    ENTRY: tl.constexpr,
    IS_ALIGNED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    piece = tl.load(pieces_T + tl.program_id(0))
    field = table_PF + piece * _FIELDS
    entries = tl.load(field).to(tl.pointer_type(ENTRY))
    num_rows, num_columns = tl.load(field + 1), tl.load(field + 2)
    if IS_ALIGNED:
        entries, num_columns = tl.multiple_of(entries, 16), tl.multiple_of(num_columns, 16)
    tile = tl.program_id(0) - tl.load(field + 7)
    tiles_across = tl.cdiv(num_columns, COLUMNS)
    first_row = tile // tiles_across * ROWS
    column = tile % tiles_across * COLUMNS + tl.arange(0, COLUMNS)
    is_inside = column < num_columns
    place = entries + first_row * num_columns + column
    odd_from, salt = tl.load(field + 3), tl.load(field + 5)
    total = tl.zeros((COLUMNS,), tl.int64)
    for row in range(first_row, tl.minimum(first_row + ROWS, num_rows)):
        bits = tl.load(place, mask=is_inside, other=0)
        total += bits.to(tl.int64) * _odd(odd_from + row, salt)
        place += num_columns
    total *= _odd(tl.load(field + 4) + column, tl.load(field + 6))
    tl.atomic_add(sums_P + piece, tl.sum(total), sem="relaxed")


def sum_pieces(pieces: Sequence[Piece]) -> torch.Tensor:
    """Return int64 (pieces,): each the sum of bits * odd(row) * odd'(column), which wraps.

    Pieces are contiguous, not empty, and have entries of one size.
    """
    device, size = pieces[0][0].device, pieces[0][0].element_size()
    rows, counts = [], []
    is_aligned = True
    for tensor, first_row, first_column in pieces:
        bits_RC = bits_of(tensor)
        place = [*bits_RC.shape, first_row, first_column, signed(ROW_SALT), signed(COLUMN_SALT)]
        if bits_RC.shape[1] == 1:  # a vector would be a column of tiles with one entry in each row
            place = [1, bits_RC.shape[0], *place[3:1:-1], *place[5:3:-1]]
        address = bits_RC.data_ptr()
        is_aligned &= address % _ALIGNED == 0 and place[1] % _ALIGNED == 0
        rows.append([address, *place])
        counts.append(triton.cdiv(place[0], _ROWS) * triton.cdiv(place[1], _COLUMNS))
    before = [0, *accumulate(counts)]
    table = [[*row, first] for row, first in zip(rows, before[:-1], strict=True)]
    table_PF = torch.tensor(table, dtype=torch.int64).to(device)
    numbers = torch.arange(len(pieces), dtype=torch.int32)
    pieces_T = numbers.repeat_interleave(torch.tensor(counts)).to(device)
    sums_P = torch.zeros(len(pieces), dtype=torch.int64, device=device)
    with torch.cuda.device_of(sums_P):
        _sum_tiles[(before[-1],)](
            table_PF, pieces_T, sums_P, _ENTRIES[size], is_aligned, ROWS=_ROWS, COLUMNS=_COLUMNS
        )
    return sums_P


def works_on(device: torch.device) -> bool:
    """Return whether the kernel computes on this GPU as torch does.

    Triton compiles it with the host's C compiler, which some images lack, and loads it from a
    folder where some hosts load no code.
    """
    matrix_RC = torch.arange(-1200, 1200, dtype=torch.int16).reshape(2, 1200)
    pieces = [(matrix_RC, 3, 5), (matrix_RC[0], 7, 0), (matrix_RC[1, :1], 0, 0)]
    try:
        found = sum_pieces([(tensor.to(device), row, column) for tensor, row, column in pieces])
        expected = [int(block_sum(*piece)) for piece in pieces]
        return found.tolist() == expected
    except (ImportError, OSError, RuntimeError, SubprocessError, TritonError):
        return False
