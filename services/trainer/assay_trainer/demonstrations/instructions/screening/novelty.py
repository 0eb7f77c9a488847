"""Known instructions, to find the same again, or a near one.

Similarity is the shared part of two texts' words and pairs of neighbours (Jaccard), so that short
instructions can be compared too. MinHash and LSH find candidates; each candidate is compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from datasketch import MinHash, MinHashLSH

from assay_shared.errors import InternalFault
from assay_trainer.curation.screen import prompt_digest
from assay_trainer.data.words import ngrams, words_of

_PERMUTATIONS, _SEED = 256, 1
#: A missed pair is worse than a wrong candidate, since candidates are compared anyhow.
_LOOSER = 0.85
_FALSE_POSITIVE_WEIGHT, _FALSE_NEGATIVE_WEIGHT = 0.1, 0.9
#: Planted near duplicates, of texts that LSH cannot miss but by a fault.
_MAX_PLANTED = 20
_CERTAIN = 1.0 - 1e-6


@dataclass(frozen=True)
class KnownText:
    """A known text that another one repeats: its name, and the similarity (1: the same words)."""

    name: str
    similarity: float


class KnownInstructions:
    """Texts by their words."""

    def __init__(self, similarity: float) -> None:
        self._similarity = similarity
        self._names: list[str] = []
        self._features: list[frozenset[str]] = []
        self._words: list[list[str]] = []
        self._same: dict[bytes, int] = {}
        self._lsh = MinHashLSH(
            _LOOSER * similarity,
            _PERMUTATIONS,
            weights=(_FALSE_POSITIVE_WEIGHT, _FALSE_NEGATIVE_WEIGHT),
        )

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str, text: str) -> None:
        """Add a text that later ones must differ from."""
        place = len(self._names)
        words = words_of(text)
        features = _features(words)
        self._names.append(name)
        self._features.append(features)
        if place < _MAX_PLANTED:
            self._words.append(words)
        self._same.setdefault(prompt_digest(text), place)
        self._lsh.insert(place, _sketch(features))

    def find(self, text: str) -> KnownText | None:
        """Return the known text repeated by a text; None if it is new."""
        same = self._same.get(prompt_digest(text))
        if same is not None:
            return KnownText(self._names[same], 1.0)
        return self._near(words_of(text))

    def _near(self, words: list[str]) -> KnownText | None:
        features = _features(words)
        places = sorted(self._lsh.query(_sketch(features)))
        values = [(_jaccard(features, self._features[one]), one) for one in places]
        value, place = max(values, default=(0.0, 0), key=lambda one: (one[0], -one[1]))
        return KnownText(self._names[place], value) if value >= self._similarity else None

    def check(self) -> int:
        """Plant near duplicates of known texts, and return how many were found: all of them.

        Raises:
            InternalFault: one was not found.
        """
        number = 0
        for words in self._planted():
            if self._near(words) is None:
                raise InternalFault(
                    "the search for near duplicates is broken: a planted one was not found"
                )
            number += 1
        return number

    def _planted(self) -> Iterator[list[str]]:
        for place, words in enumerate(self._words):
            middle = len(words) // 2
            changed = [*words[:middle], "changedword", *words[middle + 1 :]]
            value = _jaccard(_features(changed), self._features[place])
            recall = 1.0 - (1.0 - value**self._lsh.r) ** self._lsh.b
            if value >= self._similarity and recall > _CERTAIN:
                yield changed


def _features(words: list[str]) -> frozenset[str]:
    return frozenset(words) | frozenset(ngrams(words, 2))


def _sketch(features: frozenset[str]) -> MinHash:
    sketch = MinHash(_PERMUTATIONS, seed=_SEED)
    sketch.update_batch([one.encode(errors="surrogatepass") for one in features])
    return sketch


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / (len(one | other) or 1)
