"""Proof that an engine holds the announced weights, taken from the engine itself."""

import logging
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import NamedTuple

from assay_inference.weights.safetensors import Tensor, rounded
from assay_shared.errors import WeightsRefused
from assay_shared.standalone.weight_transfer.fingerprint import add_up, as_text
from assay_shared.standalone.weight_transfer.sample import Piece, SamplePlan, digest_of
from assay_shared.types import LogprobProbe

_log = logging.getLogger(__name__)

#: Tolerance in nats. Two engines with the same float32 weights differ by far less: only the order
#: of their sums differs.
_FINE = 5e-3
#: A GPU's kernels may multiply float32 in TF32, of 10 bits after the point.
_TF32 = 5e-2
#: With weights of 16 bits, the order of the sums alone makes differences of tenths of a nat.
_COARSE = 0.5
#: Rounding to 16 bits moves a rare token by more: one of this number may differ by some times more.
_TOKENS_OF_A_RARE, _RARE_TIMES = 50, 4


class Whole(NamedTuple):
    """The expected shape and fingerprint of a whole tensor."""

    shape: tuple[int, ...]
    fingerprint: str


class Coverage(NamedTuple):
    """The number of compared tensors, and of all tensors of a checkpoint."""

    num_compared: int
    num_tensors: int


def compare_digests(
    layout: Mapping[str, Tensor],
    workers: Sequence[Mapping[str, tuple[Sequence[int], Sequence[str]]]],
    seed: str,
    dtype: str,
) -> Coverage:
    """Compare each worker's sampled digests with the same entries of the checkpoint.

    Args:
        workers: for each worker, by tensor: its piece, and a digest of each of its copies.
        dtype: type of the engine's weights.

    Raises:
        WeightsRefused: a sample differs, or nothing could be compared.
    """
    compared: set[str] = set()
    for digests in workers:
        for name, (numbers, found) in digests.items():
            piece = Piece(*numbers)
            expected = expected_digest(layout[name], name, piece, seed, dtype)
            if expected is None or not found:
                continue
            if set(found) != {expected}:
                raise WeightsRefused(
                    f"the engine's own {name} differs from the checkpoint's: the weights did not "
                    "land"
                )
            compared.add(name)
    if not compared:
        raise WeightsRefused("none of the engine's weights could be compared with the checkpoint")
    if len(compared) < len(layout):
        missing = sorted(layout.keys() - compared)
        _log.warning("%d tensors were not compared, %s ...", len(missing), missing[0])
    return Coverage(len(compared), len(layout))


def expected_digest(tensor: Tensor, name: str, piece: Piece, seed: str, dtype: str) -> str | None:
    """Return the digest of a sample of a checkpoint's tensor, rounded to the engine's type.

    None if numbers of the tensor's type or shape are not read.

    Raises:
        WeightsRefused: the engine's piece reaches beyond the checkpoint's tensor.
    """
    num_rows, num_columns = (*tensor.shape, 1)[:2]
    if piece.first_row + piece.num_rows > num_rows:
        raise WeightsRefused(f"the engine's own {name} has more rows than the checkpoint's")
    if piece.first_column + piece.num_columns > num_columns:
        raise WeightsRefused(f"the engine's own {name} has more columns than the checkpoint's")
    plan = SamplePlan.of(name, piece, seed)
    values = tensor.entries(
        [piece.first_row + row for row in plan.rows],
        [piece.first_column + column for column in plan.columns],
    )
    return None if values is None else digest_of(rounded(values, dtype))


def compare_whole(
    expected: Mapping[str, Whole], workers: Sequence[Mapping[str, tuple[Sequence[int], str]]]
) -> tuple[set[str], set[str]]:
    """Return the names of the compared tensors, and of the differing tensors among them.

    A tensor with missing entries counts as differing.

    Args:
        workers: for each worker, by tensor: its piece, and the piece's fingerprint. Pieces of
            several workers add up; copies of the same piece must be equal.
    """
    pieces: dict[str, dict[Piece, set[str]]] = {}
    for found in workers:
        for name, (numbers, value) in found.items():
            pieces.setdefault(name, {}).setdefault(Piece(*numbers), set()).add(value)
    differing = set()
    for name, values in pieces.items():
        num_rows, num_columns = (*expected[name].shape, 1)[:2]
        num_found = sum(piece.num_rows * piece.num_columns for piece in values)
        total = add_up([int(value, 16) for each in values.values() for value in each])
        is_whole = num_found == num_rows * num_columns
        if not is_whole or as_text(total) != expected[name].fingerprint:
            differing.add(name)
    return set(pieces), differing


class Arithmetic(NamedTuple):
    """The type and the device of an engine's computation of log-probabilities."""

    dtype: str
    on_gpu: bool

    def tolerance(self, probe: LogprobProbe) -> float:
        """Return the probe's tolerance in nats, or a default for this arithmetic."""
        if probe.tolerance is not None:
            return probe.tolerance
        if any(dtype.endswith("16") for dtype in (self.dtype, probe.dtype)):
            return _COARSE
        return _TF32 if self.on_gpu else _FINE


def compare_probe(probe: LogprobProbe, found: Sequence[float], arithmetic: Arithmetic) -> float:
    """Return the largest difference of the probe's and the engine's log-probabilities, in nats.

    Raises:
        WeightsRefused: differences exceed the tolerance, or are not numbers. In 16 bits, one token
            in 50 may differ by up to four times as much.
    """
    tolerance = arithmetic.tolerance(probe)
    is_coarse = probe.tolerance is None and tolerance == _COARSE
    num_rare = len(found) // _TOKENS_OF_A_RARE if is_coarse else 0
    # Rounding is relative: a sharp policy's very improbable tokens differ by more.
    excesses = sorted(
        (
            (abs(expected - ours) / max(1.0, abs(expected)), expected, ours)
            for expected, ours in zip(probe.logprobs, found, strict=True)
        ),
        key=lambda one: -one[0] if isfinite(one[0]) else -inf,
    )
    for number, (excess, expected, ours) in enumerate(excesses):
        allowed = tolerance * (_RARE_TIMES if number < num_rare else 1)
        if not excess <= allowed:  # NaN is refused too
            differ, most = abs(expected - ours), allowed * max(1.0, abs(expected))
            raise WeightsRefused(
                f"the probe's log-probabilities differ by {differ:.4g} nats where the trainer has "
                f"{expected:.4g}, more than {most:.4g}: these are not the weights that were "
                "announced"
            )
    return max(abs(expected - ours) for _, expected, ours in excesses)
