"""Options of multiple choice found in a text: a line each, with a label, in any order."""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

#: `A. x`, `(b) x`, `3) x`, `- x`: a label, and the option.
_LABEL = r"[ \t>|#]*(?:[-*+\u2022\u2013]|[(\[]?(?:[A-Za-z]|\d{1,2}|[ivx]{2,4})[.):\]])[ \t]*"
_OPTION = re.compile(rf"{_LABEL}(\S.*)")
_TWO_LABELS = re.compile(rf"^{_LABEL}\S.*\n(?:[ \t]*\n)*{_LABEL}\S", re.MULTILINE)
_DROPPED = re.compile(r"[\W_]+")
_MASK = 2**64 - 1


def set_hash(options: Iterable[str]) -> int:
    """Return the hash of options, whatever their order."""
    return sum(map(_hash, options)) & _MASK


def windows(text: str, sizes: Iterable[int]) -> Iterator[int]:
    """Yield the hash of each set of consecutive options, if it has one of `sizes`."""
    if "\n" not in text or not _TWO_LABELS.search(text):
        return
    for block in _blocks(text):
        hashes = np.array([0, *map(_hash, block)], dtype=np.uint64)
        sums: NDArray[np.uint64] = np.cumsum(hashes, dtype=np.uint64)
        for size in sizes:
            if size <= len(block):
                yield from (sums[size:] - sums[:-size]).tolist()


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield the options of consecutive lines with labels; empty lines may stand between them."""
    block: list[str] = []
    for line in text.split("\n"):
        found = _OPTION.match(line)
        if found:
            block.append(found[1])
        elif block and line.strip():
            yield block
            block = []
    if block:
        yield block


def _hash(option: str) -> int:
    """Return the hash of an option's letters and digits; of its signs, if it has nothing else."""
    folded = option.casefold()
    kept = _DROPPED.sub("", folded) or "".join(folded.split())
    return int.from_bytes(blake2b(kept.encode(errors="surrogatepass"), digest_size=8).digest())
