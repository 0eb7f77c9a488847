"""Comparison of all of an engine's weights with their source; on demand, since files take time."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from assay_inference.weights.attest import Whole, compare_whole, expected_digest
from assay_inference.weights.checkpoint import Checkpoint
from assay_inference.weights.safetensors import Tensor
from assay_shared.standalone.weight_transfer.fingerprint import (
    BLOCK_ENTRIES,
    add_up,
    as_text,
    fingerprint,
)
from assay_shared.standalone.weight_transfer.sample import Piece
from assay_shared.types import WeightDigest

_STORED = {"F32": np.float32, "F16": np.float16, "BF16": np.int16}
Found = Sequence[Mapping[str, Sequence[Any]]]


def file_fingerprint(tensor: Tensor, dtype: str) -> str | None:
    """Return the fingerprint of a checkpoint's tensor in the engine's type.

    None if numbers of the tensor's type are not read.
    """
    if tensor.dtype not in _STORED:
        return None
    shape = (tensor.shape[0], math.prod(tensor.shape[1:])) if tensor.shape else (1, 1)
    stored = np.memmap(tensor.file, _STORED[tensor.dtype], "r", tensor.start, shape)
    kept: torch.dtype = getattr(torch, dtype)
    num_rows = max(1, BLOCK_ENTRIES // shape[1])
    pieces = []
    for row in range(0, shape[0], num_rows):
        block = torch.from_numpy(np.array(stored[row : row + num_rows]))
        values = block.view(torch.bfloat16) if tensor.dtype == "BF16" else block
        pieces.append(fingerprint(values.to(kept), first_row=row))
    return as_text(add_up(pieces))


def expected_of(checkpoint: Checkpoint, dtype: str) -> dict[str, Whole]:
    """Return the expected shape and fingerprint of each tensor, in an engine of type `dtype`."""
    if checkpoint.direct is not None:
        return {t.name: Whole(t.shape, t.fingerprint) for t in checkpoint.direct.tensors}
    values = {name: file_fingerprint(tensor, dtype) for name, tensor in checkpoint.layout.items()}
    return {
        name: Whole(checkpoint.layout[name].shape, value)
        for name, value in values.items()
        if value is not None
    }


def compare_all(
    checkpoint: Checkpoint,
    dtype: str,
    fingerprints: Sequence[Mapping[str, tuple[Sequence[int], str]]],
    samples: tuple[Found, Found],
    engine_s: float,
) -> WeightDigest:
    """Compare the engine's fingerprints and samples with the checkpoint or the manifest.

    Args:
        fingerprints: for each worker, by tensor: its piece, and the piece's fingerprint.
        samples: for each worker, by tensor copied by a kernel: the piece, and the digests of the
            copy's samples; then the same at arrival, for weights without files.
        engine_s: time taken by the engine, in seconds.
    """
    started = time.perf_counter()
    expected = expected_of(checkpoint, dtype)
    whole, differing = compare_whole(expected, fingerprints)
    digests, came = samples
    sampled: set[str] = set()
    for at, worker in enumerate(digests):
        for name, (piece, found) in worker.items():
            sampled.add(name)
            if checkpoint.direct is not None:
                sample = came[at][name][1]
            else:
                tensor, seed = checkpoint.layout[name], checkpoint.policy.digest
                sample = expected_digest(tensor, name, Piece(*piece), seed, dtype)
            if set(found) != {sample}:
                differing.add(name)
    return WeightDigest(
        policy=checkpoint.policy,
        num_tensors=len(checkpoint.layout),
        num_whole=len(whole),
        num_sampled=len(sampled - whole),
        differing=tuple(sorted(differing)),
        engine_s=engine_s,
        reference_s=time.perf_counter() - started,
    )
