"""SGLang's checksums of its tensors (`/weights_checker`), recomputed from a checkpoint.

Its tensors are fused (q, k and v; gate and up) and rounded to its computing type; embeddings are
padded with zeros. On a CPU a checksum is a part of SHA-256, on a GPU SGLang's own hash.
"""

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from assay_inference.weights.attest import Coverage
from assay_inference.weights.safetensors import Tensor, kept
from assay_shared.errors import WeightsRefused

Words = npt.NDArray[np.uint32]

_FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
_PADDED = ("embed_tokens.weight", "lm_head.weight")
_PAD_ROWS = 64
_TILE_WORDS = 8192
_CHUNK_TILES = 512
_MIX_1, _MIX_2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_POSITION_1, _POSITION_2 = np.uint32(0x27D4EB2D), np.uint32(0x165667B1)
_SEED_1 = 0x243F6A88
_SEED_2 = ((_SEED_1 * 0x9E3779B1) ^ 0xDEADBEEF) & 0xFFFFFFFF
_MASK_64 = 2**64 - 1


def compare_checksums(
    layout: Mapping[str, Tensor],
    found: Mapping[str, str],
    *,
    dtype: str,
    on_gpu: bool,
    seed: str,
    max_bytes: int,
) -> Coverage:
    """Compare the engine's checksums with the checkpoint's, for at most `max_bytes` of tensors.

    Each `seed` chooses other tensors; at least a single tensor is compared.

    Raises:
        WeightsRefused: a tensor differs, or none could be compared.
    """
    known = {name: parts for name in sorted(found) if (parts := _parts(name, layout))}
    if not known:
        raise WeightsRefused("none of the engine's weights could be compared with the checkpoint")
    names = random.Random(seed).sample(sorted(known), len(known))
    left, compared = max_bytes, 0
    for name in names:
        tensors = [layout[part] for part in known[name]]
        num_bytes = sum(tensor.num_bytes for tensor in tensors)
        if compared and num_bytes > left:
            continue
        left -= num_bytes
        if not _is_same(found[name], name, tensors, dtype, on_gpu=on_gpu):
            raise WeightsRefused(
                f"the engine's own {name} differs from the checkpoint's: the weights did not land"
            )
        compared += len(tensors)
    return Coverage(compared, len(layout))


def compare_all_checksums(
    layout: Mapping[str, Tensor], found: Mapping[str, str], *, dtype: str, on_gpu: bool
) -> tuple[set[str], set[str]]:
    """Return the names of the checkpoint's tensors that are unchanged, and of the others."""
    same: set[str] = set()
    differing: set[str] = set()
    for name, checksum in found.items():
        parts = _parts(name, layout)
        tensors = [layout[part] for part in parts]
        if parts:
            is_same = _is_same(checksum, name, tensors, dtype, on_gpu=on_gpu)
            (same if is_same else differing).update(parts)
    return same, differing


def _is_same(found: str, name: str, tensors: Sequence[Tensor], dtype: str, *, on_gpu: bool) -> bool:
    try:
        return found in _checksums(name, tensors, dtype, on_gpu=on_gpu)
    except OSError as error:
        raise WeightsRefused(f"{name} cannot be read again: {error}") from error


def _parts(name: str, layout: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Return the checkpoint's tensors behind the engine's tensor `name`; empty if unknown."""
    for fused, parts in _FUSED.items():
        if f".{fused}." in name:
            names = tuple(name.replace(f".{fused}.", f".{part}.") for part in parts)
            return names if all(part in layout for part in names) else ()
    return (name,) if name in layout else ()


def _checksums(name: str, tensors: Sequence[Tensor], dtype: str, *, on_gpu: bool) -> Iterator[str]:
    """Yield the checksum of a tensor, and of an embedding also with its padding."""
    content = np.concatenate([kept(tensor.stored(), tensor.dtype, dtype) for tensor in tensors])
    checksum = gpu_checksum if on_gpu else cpu_checksum
    yield checksum(content)
    num_rows = tensors[0].shape[0]
    if name.endswith(_PADDED) and num_rows % _PAD_ROWS:
        row_bytes = content.nbytes // num_rows
        zeros = np.zeros((-num_rows % _PAD_ROWS) * row_bytes, np.uint8)
        yield checksum(np.concatenate([content, zeros]))


def cpu_checksum(content: npt.NDArray[np.uint8]) -> str:
    return hashlib.sha256(content.data).hexdigest()[:16]


def gpu_checksum(content: npt.NDArray[np.uint8]) -> str:
    """Return the checksum: hashes of tiles of 8,192 words, added up and mixed again."""
    padded = np.pad(content, (0, -len(content) % 4))
    words: Words = padded.view(np.uint32)
    num_bytes = np.uint32((len(words) * 4) & 0xFFFFFFFF)
    step = _TILE_WORDS * _CHUNK_TILES
    total = 0
    for start in range(0, len(words), step):
        total += _tiles_hash(words[start : start + step], start, num_bytes)
    return f"{_splitmix64(total & _MASK_64):016x}" if len(words) else f"{0:016x}"


def _tiles_hash(words: Words, start: int, num_bytes: np.uint32) -> int:
    """Return the sum of the 64-bit hashes of whole tiles; the last tile may be short."""
    positions = np.arange(start, start + len(words), dtype=np.uint64).astype(np.uint32)
    bounds = np.arange(0, len(words), _TILE_WORDS)
    halves = []
    for factor, seed, turn in ((_POSITION_1, _SEED_1, 15), (_POSITION_2, _SEED_2, 13)):
        place = (positions * factor + np.uint32(seed)) ^ _rotated(positions, turn)
        sums = np.add.reduceat(_mixed(words ^ place), bounds, dtype=np.uint32)
        halves.append(_mixed(sums ^ num_bytes).astype(np.uint64))
    hashes: npt.NDArray[np.uint64] = (halves[0] << np.uint64(32)) | halves[1]
    return sum(hashes.tolist())


def _rotated(words: Words, bits: int) -> Words:
    turned: Words = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return turned


def _mixed(words: Words) -> Words:
    """Apply MurmurHash3's 32-bit finaliser."""
    mixed: Any = words ^ (words >> np.uint32(16))
    mixed *= _MIX_1
    mixed ^= mixed >> np.uint32(13)
    mixed *= _MIX_2
    mixed ^= mixed >> np.uint32(16)
    done: Words = mixed
    return done


def _splitmix64(value: int) -> int:
    """Apply SplitMix64's finaliser."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return value ^ (value >> 31)
