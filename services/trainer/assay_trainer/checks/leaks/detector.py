"""All methods together, for every part of the held-out tasks."""

from collections.abc import Iterator, Sequence

from assay_trainer.checks.leaks.documents import Document
from assay_trainer.checks.leaks.findings import LeakPart, Match, Method
from assay_trainer.checks.leaks.near_duplicates import NearDuplicateIndex
from assay_trainer.checks.leaks.overlap import MAX_RARE, ExactIndex, NgramIndex
from assay_trainer.config import LeaksConfig


class Detector:
    """Finds held-out texts in training documents: `learn` each, `settle`, then `matches` of each.

    Its memory grows with the held-out tasks and not with the training tasks.
    """

    def __init__(
        self, held_out: Sequence[Document], config: LeaksConfig, max_rare: int = MAX_RARE
    ) -> None:
        self._held_out = held_out
        self._config = config
        self.exact = {part: ExactIndex(part, held_out) for part in LeakPart}
        self.ngrams = {
            part: NgramIndex(
                part,
                held_out,
                config.ngram_words,
                config.min_coverage,
                config.boilerplate_share,
                max_rare,
            )
            for part in LeakPart
        }
        self.near: dict[LeakPart, NearDuplicateIndex] = {}

    def learn(self, document: Document) -> None:
        for index in self.ngrams.values():
            index.learn(document)

    def settle(self) -> None:
        for part, index in self.ngrams.items():
            index.settle()
            if self._config.jaccard is not None:
                self.near[part] = NearDuplicateIndex(
                    part,
                    self._held_out,
                    index.boilerplate,
                    self._config.jaccard,
                    self._config.num_permutations,
                )

    def matches(self, document: Document) -> Iterator[Match]:
        for indexes in (self.exact, self.ngrams, self.near):
            for index in indexes.values():
                yield from index.matches(document)

    def compared(self, part: LeakPart, method: Method) -> list[int]:
        """Return the indices of the held-out tasks within a method's reach."""
        ngrams = self.ngrams[part]
        match method:
            case Method.EXACT:
                return list(self.exact[part].compared)
            case Method.SHARED:
                return [i for i, counting in enumerate(ngrams.counting) if counting]
            case Method.COVERED:
                return ngrams.compared
            case Method.NEAR:
                return self.near[part].compared if part in self.near else []
