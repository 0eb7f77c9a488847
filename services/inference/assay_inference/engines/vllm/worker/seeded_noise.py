"""Exponential noise of seeded requests, for all rows of a batch in a single kernel.

vLLM fills it with a generator for each request, kernel launch after kernel launch: at 256 seeded
sequences this takes longer than a small model's forward pass. Here every number is a function of
(seed, draw, column), by Philox (Salmon et al., 2011), so a seed gives the same tokens in any batch.
"""

from collections.abc import Mapping
from typing import Any

import torch
import triton
import triton.language as tl

_COLUMNS = 2048
#: A CUDA generator counts in fours.
_STRIDE = 4


@triton.jit  # type: ignore[untyped-decorator]
def _fill(noise, seeds, draws, rows, num_columns, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    which = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    seed, draw = tl.load(seeds + which), tl.load(draws + which)
    nothing = column * 0
    bits, _, _, _ = tl.philox(seed, column, nothing + draw, nothing, nothing)
    uniform = tl.uint_to_uniform_float(bits)
    # In (0, 1]; the noise divides, so it is never 0.
    drawn = tl.maximum(-tl.log(1.0 - uniform), 1e-10)
    row = tl.load(rows + which).to(tl.int64)
    tl.store(noise + row * num_columns + column, drawn, mask=column < num_columns)


def fill(noise_BV: torch.Tensor, seeds: Mapping[int, int], draws: Mapping[int, int]) -> None:
    """Put exponential(1) noise, float32, into the seeded rows.

    Args:
        draws: number of earlier draws for each of these rows.
    """
    rows = list(seeds)
    columns = [rows, [seeds[row] for row in rows], [draws[row] for row in rows]]
    table = torch.tensor(columns, dtype=torch.int64).to(noise_BV.device, non_blocking=True)
    num_columns = noise_BV.shape[1]
    grid = (len(rows), triton.cdiv(num_columns, _COLUMNS))
    _fill[grid](noise_BV, table[1], table[2].int(), table[0].int(), num_columns, COLUMNS=_COLUMNS)


def sample(probs_BV: torch.Tensor, generators: Mapping[int, Any]) -> torch.Tensor:
    """Return a token for each row (B,), as vLLM's `random_sample`; overwrite `probs_BV`.

    Generators of CUDA carry the seed, and in their offset the number of draws.
    """
    noise_BV = torch.empty_like(probs_BV)
    if len(generators) < len(noise_BV):
        noise_BV.exponential_()
    draws = {}
    for row, generator in generators.items():
        offset = generator.get_offset()
        draws[row] = offset // _STRIDE
        generator.set_offset(offset + _STRIDE)
    fill(noise_BV, {row: g.initial_seed() for row, g in generators.items()}, draws)
    return probs_BV.div_(noise_BV).argmax(dim=-1).view(-1)
