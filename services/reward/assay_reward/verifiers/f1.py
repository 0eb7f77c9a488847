"""Answers of a few words, by their overlap with a reference (SQuAD's F1, arXiv 1606.05250)."""

from collections import Counter

from assay_reward.verifiers.exact_match import MatchOptions, references_of
from assay_reward.verifiers.verifier import AnswerContext, Measurement, Verifier, lightly
from assay_shared.answers.extraction import extract
from assay_shared.answers.squad_words import normalize_answer
from assay_shared.types import Status, Task


def _f1(candidate: AnswerContext, options: MatchOptions) -> Measurement:
    """Return the best F1 of the words with any reference; an answer is accepted at 1."""
    given = extract(candidate.text, options.extract)
    if given is None:
        return Measurement(0.0, Status.WRONG_ANSWER, f"nothing is {options.extract}")
    value = max(f1(given, one) for one in references_of(candidate.task, "f1"))
    return Measurement(value, Status.ACCEPTED if value == 1.0 else Status.WRONG_ANSWER, "")


def f1(given: str, reference: str) -> float:
    """Return 2 P R / (P + R) over the shared words, each counted as often as both texts have it."""
    words, expected = normalize_answer(given).split(), normalize_answer(reference).split()
    num_shared = (Counter(words) & Counter(expected)).total()
    return 2 * num_shared / (len(words) + len(expected)) if num_shared else 0.0


def _has_reference(task: Task, options: MatchOptions) -> None:
    references_of(task, "f1")


F1 = Verifier(_f1, MatchOptions, _has_reference, reads=lightly)
