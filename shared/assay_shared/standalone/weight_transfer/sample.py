"""Which entries of a tensor both sides of an attestation look at, and their digest."""

import hashlib
import random
import struct
from typing import NamedTuple

_ROWS = 32


_COLUMNS = 8


class Piece(NamedTuple):
    """The part of a checkpoint's tensor that a worker holds."""

    first_row: int
    num_rows: int
    first_column: int
    num_columns: int


class SamplePlan(NamedTuple):
    """Which entries of one tensor are compared, in the coordinates of its piece."""

    rows: list[int]
    columns: list[int]

    @classmethod
    def of(cls, name: str, piece: Piece, seed: str) -> "SamplePlan":
        """Drawn anew for each `seed`: what one version's sample misses, another's meets."""
        drawn = random.Random(f"{seed}/{name}")
        rows = sorted(drawn.sample(range(piece.num_rows), min(_ROWS, piece.num_rows)))
        columns = sorted(drawn.sample(range(piece.num_columns), min(_COLUMNS, piece.num_columns)))
        return cls(rows, columns)


def digest_of(values: list[float]) -> str:
    """SHA-256 of numbers as float32; -0 counts as 0, since a sum of products loses its sign."""
    return hashlib.sha256(struct.pack(f"<{len(values)}f", *(v + 0.0 for v in values))).hexdigest()
