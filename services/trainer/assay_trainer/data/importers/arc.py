"""ARC (arXiv 1803.05457): three to five options with letters or numbers as labels.

A row:  {"id": "Mercury_7175875", "question": "...", "answerKey": "C",
         "choices": {"label": ["A", ...], "text": ["...", ...]}}
AI2's own has {"question": {"stem": "...", "choices": [{"label": "A", "text": "..."}, ...]}}. In the
flat form, each label is a field, and `label` lists them.
"""

from collections.abc import Iterator

from assay_shared.types import Role
from assay_trainer.data.importers.choices import choice_example, labelled, place_of, question_of
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    question, inner = question_of(row)
    if "choices" in inner:
        labels, texts = labelled(inner.get("choices"))
        answer = row.text("answerKey")
    else:
        labels = row.texts("label")
        texts = [row.text(label) for label in labels]
        answer = row.text("answer")
    name = f"arc/{row.text('id')}"
    right = place_of(answer, labels)
    tags = {"domain": "knowledge", "family": place.stem}
    yield choice_example(name, "arc", place.role, question, texts, right, tags)


ARC = PublishedFormat(
    name="arc",
    domain="knowledge",
    licence="CC BY-SA 4.0",
    roles={"train": Role.TRAIN, "dev": Role.VALIDATION, "test": Role.TEST},
    rubric="choice",
    verified=("flat rows",),
    unverified=("AI2's ARC-Challenge-Test.jsonl", "allenai/ai2_arc as Parquet"),
    read=_read,
    same_split={"validation": "dev"},
)
