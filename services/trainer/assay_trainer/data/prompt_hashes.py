"""Hashes of prompts by their words, and search for many prompts inside of a text.

Case, space and punctuation do not count, as in leak checks. A prompt is found in a longer text
too: in a chat's instruction, or between fences. Runs of words are hashed by a polynomial modulo
2^64 over a hash of each word, so that every run of a text is hashed in one pass.
"""

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay_shared.errors import DatasetError
from assay_shared.types import Task
from assay_trainer.data.words import words_of

#: A shorter prompt is found as a whole text alone: it may stand in another one by chance.
MIN_WORDS = 8
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 2**64)
_MASK = 2**64 - 1
_CACHED_WORDS = 2**17
_CACHED_POWERS = 2**12
#: A row's prompt is hashed, searched, and hashed as published, one after another.
_CACHED_TEXTS = 2

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class PromptHash:
    """A prompt by the number of its words, its first `MIN_WORDS` words, and all of them."""

    num_words: int
    start: int
    whole: int

    @classmethod
    def of(cls, text: str) -> "PromptHash":
        """Return the hash of a text."""
        sums = _sums(text)
        num_words = len(sums) - 1
        start = _run(sums, 0, min(num_words, MIN_WORDS))
        return cls(num_words, start, _run(sums, 0, num_words))

    def __str__(self) -> str:
        return f"{self.whole:016x}"


class PromptHashes:
    """Prompts of named sets, to search texts for."""

    def __init__(self, sets: Iterable[tuple[str, Sequence[PromptHash]]]) -> None:
        self._short: dict[tuple[int, int], str] = {}
        self._long: dict[int, dict[int, dict[int, str]]] = defaultdict(dict)
        self.counts: dict[str, int] = {}
        for name, prompts in sets:
            self.counts[name] = self.counts.get(name, 0) + len(prompts)
            for one in prompts:
                if one.num_words < MIN_WORDS:
                    self._short[one.num_words, one.whole] = name
                else:
                    self._long[one.start].setdefault(one.num_words, {})[one.whole] = name
        self._starts = np.array(sorted(self._long), dtype=np.uint64)

    def find(self, text: str) -> str | None:
        """Return the name of a set with a prompt that is the text or stands in it; or None."""
        sums = _sums(text)
        num_words = len(sums) - 1
        if num_words < MIN_WORDS:
            return self._short.get((num_words, _run(sums, 0, num_words)))
        if not len(self._starts):
            return None
        runs = _runs(sums, MIN_WORDS)
        places = np.searchsorted(self._starts, runs)
        places[places == len(self._starts)] = 0
        for at in np.flatnonzero(self._starts[places] == runs):
            for length, wholes in self._long[int(runs[at])].items():
                if at + length <= num_words:
                    name = wholes.get(_run(sums, int(at), length))
                    if name is not None:
                        return name
        return None


def text_of(task: Task) -> str:
    """Return all that a task shows a policy before its answer."""
    return "\n".join([*(message.content for message in task.history), task.prompt])


class HashTable:
    """The hashes of prompts in their order: 24 bytes each."""

    def __init__(self) -> None:
        self._values = array("Q")

    def add(self, prompt: PromptHash) -> None:
        """Add a prompt."""
        self._values.extend((prompt.num_words, prompt.start, prompt.whole))

    def __len__(self) -> int:
        return len(self._values) // 3

    def drop(self, places: Collection[int]) -> None:
        """Take prompts out, by their places from 0."""
        kept = array("Q")
        for at in range(len(self)):
            if at not in places:
                kept.extend(self._values[3 * at : 3 * at + 3])
        self._values = kept

    def write(self, path: Path, name: str) -> None:
        """Write the hashes under the name of their set."""
        table = np.array(self._values, dtype=np.uint64).reshape(-1, 3)
        with path.open("wb") as file:
            arrays: dict[str, Any] = {name: table}
            np.savez_compressed(file, **arrays)


def read_hashes(path: Path) -> list[tuple[str, list[PromptHash]]]:
    """Return the sets of a file with their prompts.

    Raises:
        DatasetError: the file cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return [(name, [PromptHash(*map(int, row)) for row in file[name]]) for name in file]
    except (OSError, ValueError, EOFError, TypeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None


@lru_cache(maxsize=_CACHED_WORDS)
def _word(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest())


@lru_cache(maxsize=8)
def _powers(least: int) -> tuple[Hashes, Hashes]:
    """Return at least this number of powers of the base and of its inverse."""
    both = []
    for base in (_BASE, _INVERSE):
        values = np.full(least, base, dtype=np.uint64)
        values[0] = 1
        both.append(np.cumprod(values))
    return both[0], both[1]


def _enough_powers(number: int) -> tuple[Hashes, Hashes]:
    least = _CACHED_POWERS
    while least < number:
        least *= 2
    return _powers(least)


@lru_cache(maxsize=_CACHED_TEXTS)
def _sums(text: str) -> Hashes:
    """Return the sums of the hashes of the first 0, 1, ... words, each with its power."""
    words = words_of(text)
    powers, _ = _enough_powers(len(words) + 1)
    hashes = np.fromiter(map(_word, words), dtype=np.uint64, count=len(words))
    sums = np.zeros(len(words) + 1, dtype=np.uint64)
    np.cumsum(hashes * powers[: len(words)], out=sums[1:])
    return sums


def _run(sums: Hashes, at: int, length: int) -> int:
    """Return the hash of a run of words."""
    _, inverse = _enough_powers(len(sums))
    return (int(sums[at + length]) - int(sums[at])) * int(inverse[at]) & _MASK


def _runs(sums: Hashes, length: int) -> Hashes:
    """Return the hashes of all runs of a length."""
    _, inverse = _enough_powers(len(sums))
    found: Hashes = (sums[length:] - sums[:-length]) * inverse[: len(sums) - length]
    return found
