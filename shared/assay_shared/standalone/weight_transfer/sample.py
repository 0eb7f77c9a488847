"""Sample of a tensor's entries for both sides of an attestation, and its digest."""

import hashlib
import random
import struct
from typing import NamedTuple

_ROWS = 32


_COLUMNS = 8


class Piece(NamedTuple):
    """A worker's part of a checkpoint's tensor."""

    first_row: int
    num_rows: int
    first_column: int
    num_columns: int


class SamplePlan(NamedTuple):
    """Rows and columns of a tensor to compare, in the coordinates of its piece."""

    rows: list[int]
    columns: list[int]

    @classmethod
    def of(cls, name: str, piece: Piece, seed: str) -> "SamplePlan":
        """Return a random plan for a tensor.

        The plan differs by `seed`, so entries missed for a version can be sampled for a later one.
        """
        drawn = random.Random(f"{seed}/{name}")
        rows = sorted(drawn.sample(range(piece.num_rows), min(_ROWS, piece.num_rows)))
        columns = sorted(drawn.sample(range(piece.num_columns), min(_COLUMNS, piece.num_columns)))
        return cls(rows, columns)


def digest_of(values: list[float]) -> str:
    """Return the SHA-256 of numbers as float32, with -0 as 0: sums of products lose the sign."""
    return hashlib.sha256(struct.pack(f"<{len(values)}f", *(v + 0.0 for v in values))).hexdigest()
