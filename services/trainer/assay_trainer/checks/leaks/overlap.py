"""Exact matches, and word n-grams shared by held-out texts and training tasks."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from assay_trainer.checks.leaks.documents import Document
from assay_trainer.checks.leaks.findings import LeakPart, Match, Method
from assay_trainer.data.words import ngrams

#: Shorter texts are alike by chance. GPT-3 uses no shorter n-grams (arXiv 2005.14165, appendix C).
MIN_WORDS = 8
#: No n-gram is boilerplate that stands in so few tasks.
MAX_RARE = 2


class ExactIndex:
    """A part of the held-out tasks by its words; short gold answers tell nothing."""

    def __init__(self, part: LeakPart, held_out: Sequence[Document]) -> None:
        self._part = part
        self._ids: dict[str, list[str]] = defaultdict(list)
        least = MIN_WORDS if part is LeakPart.GOLD else 1
        self.compared = [i for i, one in enumerate(held_out) if len(one.parts[part]) >= least]
        for i in self.compared:
            self._ids[" ".join(held_out[i].parts[part])].append(held_out[i].task_id)

    def matches(self, document: Document) -> Iterator[Match]:
        text = " ".join(document.parts[self._part])
        for task_id in self._ids.get(text, ()):
            yield Match(self._part, Method.EXACT, task_id, document.task_id, 1.0, text)


class NgramIndex:
    """The n-grams of a part of the held-out tasks; a shorter text is a single n-gram.

    Built in three steps: `learn` every training document, `settle`, then ask for `matches`. An
    n-gram in more than `boilerplate_share` of either set is boilerplate, the common text of a
    template's tasks: only n-grams without a word of boilerplate count. A task without such n-grams
    is compared as a whole: a training task covers it if it has every n-gram of the task.
    """

    def __init__(
        self,
        part: LeakPart,
        held_out: Sequence[Document],
        num_words: int,
        min_coverage: float,
        boilerplate_share: float,
        max_rare: int = MAX_RARE,
    ) -> None:
        self._part = part
        self._ids = [document.task_id for document in held_out]
        self._min_coverage = min_coverage
        self._boilerplate_share = boilerplate_share
        self._max_rare = max_rare
        self._runs = [_runs(document.parts[part], num_words) for document in held_out]
        self._ngrams = [set(run) for run in self._runs]
        self._num_held_out = Counter(ngram for found in self._ngrams for ngram in found)
        self._num_training: Counter[str] = Counter()
        self._num_learnt = 0
        self._sizes = {_size(run) for run in self._runs if run}
        self.counting: list[set[str]] = []
        self.boilerplate: set[str] = set()
        self._places: dict[str, list[int]] = {}
        self._whole: dict[str, list[int]] = {}

    @property
    def compared(self) -> list[int]:
        """Return the indices of sufficiently long held-out tasks."""
        return [i for i, found in enumerate(self._ngrams) if found]

    def learn(self, document: Document) -> None:
        self._num_training.update(self._present(document))
        self._num_learnt += 1

    def settle(self) -> None:
        """Separate boilerplate from the other n-grams."""
        most_held_out = max(self._max_rare, self._boilerplate_share * len(self._ngrams))
        most_training = max(self._max_rare, self._boilerplate_share * self._num_learnt)
        self.boilerplate = {
            ngram
            for ngram, num in self._num_held_out.items()
            if num > most_held_out or self._num_training[ngram] > most_training
        }
        self.counting = [_without(run, self.boilerplate) for run in self._runs]
        places, whole = defaultdict(list), defaultdict(list)
        for i, (found, counting) in enumerate(zip(self._ngrams, self.counting, strict=True)):
            for ngram in counting:
                places[ngram].append(i)
            if found and not counting:
                whole[min(found, key=lambda n: (self._num_training[n], n))].append(i)
        self._places, self._whole = places, whole

    def matches(self, document: Document) -> Iterator[Match]:
        present = self._present(document)
        shared: dict[int, list[str]] = defaultdict(list)
        for ngram in present:
            for i in self._places.get(ngram, ()):
                shared[i].append(ngram)
            for i in self._whole.get(ngram, ()):
                if self._ngrams[i] <= present:
                    yield self._match(Method.COVERED, i, document, 1.0, ngram)
        for i, found in shared.items():
            coverage = len(found) / len(self.counting[i])
            yield self._match(Method.SHARED, i, document, coverage, min(found))
            if coverage >= self._min_coverage:
                yield self._match(Method.COVERED, i, document, coverage, min(found))

    def _present(self, document: Document) -> set[str]:
        """Return the held-out tasks' n-grams in the whole text of a training task."""
        words, known = document.words, self._num_held_out
        return {ngram for n in self._sizes for ngram in ngrams(words, n) if ngram in known}

    def _match(
        self, method: Method, place: int, document: Document, value: float, text: str
    ) -> Match:
        return Match(self._part, method, self._ids[place], document.task_id, value, text)


def _runs(words: list[str], num_words: int) -> list[str]:
    """Return the n-grams of a text in order; none if it is too short."""
    if len(words) < MIN_WORDS:
        return []
    return list(ngrams(words, min(num_words, len(words))))


def _size(run: list[str]) -> int:
    """Return the number of words in an n-gram."""
    return run[0].count(" ") + 1


def _without(run: list[str], boilerplate: set[str]) -> set[str]:
    """Return the n-grams without overlap with boilerplate in their text."""
    if not run:
        return set()
    reach = _size(run) - 1
    places = [i for i, ngram in enumerate(run) if ngram in boilerplate]
    touched = {near for i in places for near in range(i - reach, i + reach + 1)}
    return {ngram for i, ngram in enumerate(run) if i not in touched}
