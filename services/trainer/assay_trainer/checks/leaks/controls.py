"""Positive controls: planted leaks, to prove the check can find leaks."""

import random
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assay_shared.errors import InternalFault
from assay_shared.types import Task
from assay_trainer.checks.leaks.detector import Detector
from assay_trainer.checks.leaks.documents import Document, Reader
from assay_trainer.checks.leaks.findings import LeakPart, Method
from assay_trainer.data.words import has_words, words_of

#: Of each kind, part and method.
MAX_PLANTED = 20
_MAX_CHANGED = 3
#: LSH may miss a pair near its threshold: a control is one that it cannot miss but by a fault.
_CERTAIN = 1.0 - 1e-6
_CHANGED_WORD = "changed"
_OTHER_CASE = str.maketrans(string.ascii_letters, string.ascii_uppercase + string.ascii_lowercase)


class Kind(StrEnum):
    """Change of a held-out text before it is planted."""

    COPY = "copy"
    RESPACED = "other case and spaces"
    NGRAM_INSIDE = "an n-gram in another text"
    WHOLE_INSIDE = "all of it in another text"
    CHANGED = "changed words"


@dataclass(frozen=True)
class Control:
    """A planted training document, with the method and the held-out task to find in it."""

    kind: Kind
    part: LeakPart
    method: Method
    held_out_id: str
    document: Document


@dataclass(frozen=True)
class Controlled:
    """How many controls of a kind were planted, and all of them were found."""

    kind: Kind
    part: LeakPart
    method: Method
    num_planted: int


def check_controls(
    detector: Detector, reader: Reader, held_out: Sequence[Task], other: Task, seed: int
) -> list[Controlled]:
    """Plant controls of every kind for sufficiently long held-out texts.

    `other` is a training task: its text surrounds a text planted inside another.

    Raises:
        InternalFault: a control was not found: the check could miss real leaks too.
    """
    planting = _Planting(detector, reader, held_out, reader.document(other).words)
    counts: dict[tuple[Kind, LeakPart, Method], int] = {}
    for control in planting.controls(random.Random(f"{seed}/leaks")):
        if not _is_found(detector, control):
            raise InternalFault(
                f"the leak check is broken: {control.kind} of the {control.part} of "
                f"{control.held_out_id}, planted among the training tasks, was not found as "
                f"{control.method}"
            )
        key = control.kind, control.part, control.method
        counts[key] = counts.get(key, 0) + 1
    return [Controlled(*key, num) for key, num in counts.items()]


def _is_found(detector: Detector, control: Control) -> bool:
    wanted = control.part, control.method, control.held_out_id
    matches = detector.matches(control.document)
    return any((m.part, m.method, m.held_out_id) == wanted for m in matches)


class _Planting:
    def __init__(
        self, detector: Detector, reader: Reader, held_out: Sequence[Task], other: list[str]
    ) -> None:
        self._detector = detector
        self._reader = reader
        self._held_out = held_out
        self._other = other

    def controls(self, rng: random.Random) -> Iterator[Control]:
        for part in LeakPart:
            for method in Method:
                places = self._detector.compared(part, method)
                rng.shuffle(places)
                for kind in Kind:
                    yield from self._of_kind(kind, part, method, places)

    def _of_kind(
        self, kind: Kind, part: LeakPart, method: Method, places: Sequence[int]
    ) -> Iterator[Control]:
        num = 0
        for place in places:
            words = self._words(kind, part, method, place)
            if words is not None:
                task_id = self._held_out[place].id
                parts = {one: words if one is part else [] for one in LeakPart}
                yield Control(kind, part, method, task_id, Document(f"control/{kind}", parts))
                num += 1
            if num == MAX_PLANTED:
                return

    def _words(self, kind: Kind, part: LeakPart, method: Method, place: int) -> list[str] | None:
        """Return the words to plant; None if the method need not find this kind."""
        text = self._reader.text(self._held_out[place], part)
        if kind is Kind.COPY:
            return None if method is Method.SHARED else words_of(text)
        if kind is Kind.RESPACED:
            # Without words, all signs count, and so do the quotation marks of this control.
            is_planted = method is not Method.SHARED and has_words(text)
            return words_of(respaced(text)) if is_planted else None
        if kind is Kind.WHOLE_INSIDE and method is Method.COVERED:
            return self._inside_another(words_of(text))
        if kind is Kind.NGRAM_INSIDE and method is Method.SHARED:
            counting = self._detector.ngrams[part].counting[place]
            return self._inside_another(min(counting).split())
        if kind is Kind.CHANGED and method is Method.NEAR:
            return self._changed(part, place, words_of(text))
        return None

    def _inside_another(self, words: list[str]) -> list[str]:
        half = len(self._other) // 2
        return self._other[:half] + words + self._other[half:]

    def _changed(self, part: LeakPart, place: int, words: list[str]) -> list[str] | None:
        """Return the words with the most changes LSH surely tolerates; None without a change."""
        near = self._detector.near[part]
        for num in range(_MAX_CHANGED, 0, -1):
            changed = list(words)
            for i in range(1, num + 1):
                changed[i * len(words) // (num + 1)] = f"{_CHANGED_WORD}{i}"
            similarity = near.similarity(place, changed)
            if similarity >= near.jaccard and near.recall(similarity) > _CERTAIN:
                return changed
        return None


def respaced(text: str) -> str:
    """Return the same words with other case, spaces and quotation marks."""
    spaced = re.sub(r"\s+", "  \n\t", text)
    return f'  "{spaced.translate(_OTHER_CASE)}" '
