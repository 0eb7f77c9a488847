"""Near duplicates: MinHash and LSH find candidates, and each candidate is compared."""

from collections.abc import Iterator, Sequence
from math import ceil

from datasketch import MinHash, MinHashLSH

from assay_trainer.checks.leaks.documents import Document
from assay_trainer.checks.leaks.findings import LeakPart, Match, Method
from assay_trainer.data.words import ngrams

SHINGLE_WORDS = 3
_SEED = 1
#: A missed pair is worse than a wrong candidate, since candidates are compared anyhow:
#: LSH is set for less than the similarity that is asked for, and against misses.
_LOOSER = 0.85
_FALSE_POSITIVE_WEIGHT, _FALSE_NEGATIVE_WEIGHT = 0.1, 0.9


class NearDuplicateIndex:
    """A part of the held-out tasks as sets of shingles (runs of three words).

    Shingles of `boilerplate` do not count. A text is not compared if a single changed word would
    take its few remaining shingles below `jaccard`.
    """

    def __init__(
        self,
        part: LeakPart,
        held_out: Sequence[Document],
        boilerplate: set[str],
        jaccard: float,
        num_permutations: int,
    ) -> None:
        self._part = part
        self.jaccard = jaccard
        self._ids = [document.task_id for document in held_out]
        self._boilerplate = {
            shingle for ngram in boilerplate for shingle in ngrams(ngram.split(), SHINGLE_WORDS)
        }
        self._min_shingles = ceil(SHINGLE_WORDS * (1 + jaccard) / (1 - jaccard))
        self._empty = MinHash(num_permutations, seed=_SEED)
        self._lsh = MinHashLSH(
            _LOOSER * jaccard,
            num_permutations,
            weights=(_FALSE_POSITIVE_WEIGHT, _FALSE_NEGATIVE_WEIGHT),
        )
        self._shingles: dict[int, set[str]] = {}
        for i, document in enumerate(held_out):
            found = self.shingles(document.parts[part])
            if len(found) >= self._min_shingles:
                self._shingles[i] = found
                self._lsh.insert(i, self._sketch(found))

    @property
    def compared(self) -> list[int]:
        """Places of held-out tasks with enough shingles."""
        return list(self._shingles)

    def shingles(self, words: Sequence[str]) -> set[str]:
        return set(ngrams(words, SHINGLE_WORDS)) - self._boilerplate

    def similarity(self, place: int, words: Sequence[str]) -> float:
        """Return the Jaccard similarity of a held-out text and another text."""
        return _jaccard(self._shingles[place], self.shingles(words))

    def recall(self, similarity: float) -> float:
        """Return the probability of such a pair to become a candidate: 1 - (1 - s^r)^b."""
        return float(1.0 - (1.0 - similarity**self._lsh.r) ** self._lsh.b)

    def matches(self, document: Document) -> Iterator[Match]:
        words = document.parts[self._part]
        found = self.shingles(words)
        if len(found) < self.jaccard * self._min_shingles:
            return
        for place in self._lsh.query(self._sketch(found)):
            held_out = self._shingles[place]
            value = _jaccard(held_out, found)
            if value >= self.jaccard:
                text = _longest_run(words, held_out)
                task_id = self._ids[place]
                yield Match(self._part, Method.NEAR, task_id, document.task_id, value, text)

    def _sketch(self, shingles: set[str]) -> MinHash:
        sketch = self._empty.copy()
        sketch.update_batch([shingle.encode() for shingle in shingles])
        return sketch


def _jaccard(a: set[str], b: set[str]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0


def _longest_run(words: Sequence[str], shared: set[str]) -> str:
    """Return the longest run of words with only shared shingles."""
    best = start = 0
    length = 0
    for i, shingle in enumerate(ngrams(words, SHINGLE_WORDS)):
        if shingle not in shared:
            start = i + 1
        elif i + 1 - start > length:
            best, length = start, i + 1 - start
    return " ".join(words[best : best + length + SHINGLE_WORDS - 1])
