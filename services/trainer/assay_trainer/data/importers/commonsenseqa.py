"""CommonsenseQA (arXiv 1811.00937): the official rows and the hub's.

A row:  {"id": "...", "answerKey": "A", "question": {"stem": "...", "question_concept": "...",
         "choices": [{"label": "A", "text": "bank"}, ...]}}
"""

from collections.abc import Iterator

from assay_shared.types import Role
from assay_trainer.data.importers.choices import choice_example, labelled, place_of, question_of
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    question, inner = question_of(row)
    labels, texts = labelled(inner.get("choices"))
    tags = {"domain": "qa", "family": inner.maybe_text("question_concept")}
    name = f"commonsenseqa/{row.text('id')}"
    answer = place_of(row.text("answerKey"), labels)
    yield choice_example(name, "commonsenseqa", place.role, question, texts, answer, tags)


COMMONSENSEQA = PublishedFormat(
    name="commonsenseqa",
    domain="qa",
    licence="MIT",
    # The published test split has no answers: the dev split is what is measured on.
    roles={"train": Role.TRAIN, "dev": Role.VALIDATION},
    rubric="choice",
    verified=("the official rows",),
    unverified=("tau/commonsense_qa as Parquet",),
    read=_read,
    same_split={"validation": "dev"},
)
