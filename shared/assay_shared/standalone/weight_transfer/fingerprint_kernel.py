"""The sum of a fingerprint in one kernel: torch's operations store 8 bytes for every entry.

Needs Triton. Shapes: R rows, C columns.
"""

from subprocess import SubprocessError

import torch
import triton
import triton.language as tl
from triton.errors import TritonError

_ROWS, _COLUMNS = 32, 1024


@triton.jit  # type: ignore[untyped-decorator]
def _sum_tiles(  # type: ignore[no-untyped-def]
    bits,
    odd_rows,
    odd_columns,
    sums,
    num_rows,
    num_columns,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    first_row = tl.program_id(0) * ROWS
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_inside = column < num_columns
    place = bits + first_row.to(tl.int64) * num_columns + column
    total = tl.zeros((COLUMNS,), tl.int64)
    for row in range(first_row, tl.minimum(first_row + ROWS, num_rows)):
        entries = tl.load(place, mask=is_inside, other=0)
        total += entries.to(tl.int64) * tl.load(odd_rows + row)
        place += num_columns
    total *= tl.load(odd_columns + column, mask=is_inside, other=0)
    tl.store(sums + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), tl.sum(total))


def sum_products(bits_RC: torch.Tensor, odd_R: torch.Tensor, odd_C: torch.Tensor) -> torch.Tensor:
    """Return the int64 sum of bits * odd(row) * odd'(column), which wraps.

    `bits_RC` are contiguous integers of any size, the other two int64.
    """
    if bits_RC.shape[1] == 1:  # a vector would be a column of tiles with one entry in each row
        bits_RC, odd_R, odd_C = bits_RC.reshape(1, -1), odd_C, odd_R
    num_rows, num_columns = bits_RC.shape
    grid = (triton.cdiv(num_rows, _ROWS), triton.cdiv(num_columns, _COLUMNS))
    sums = torch.empty(grid, dtype=torch.int64, device=bits_RC.device)
    with torch.cuda.device_of(bits_RC):
        _sum_tiles[grid](
            bits_RC, odd_R, odd_C, sums, num_rows, num_columns, ROWS=_ROWS, COLUMNS=_COLUMNS
        )
    return sums.sum()


def works_on(device: torch.device) -> bool:
    """Return whether the kernel computes on this GPU.

    Triton compiles it with the host's C compiler, which some images lack, and loads it from a
    folder where some hosts load no code.
    """
    bits_11 = torch.full((1, 1), -3, dtype=torch.int16, device=device)
    factor_1 = torch.full((1,), 5, dtype=torch.int64, device=device)
    try:
        return int(sum_products(bits_11, factor_1, factor_1)) == -75
    except (ImportError, OSError, RuntimeError, SubprocessError, TritonError):
        return False
