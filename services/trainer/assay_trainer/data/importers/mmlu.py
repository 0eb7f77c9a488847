"""MMLU (arXiv 2009.03300): rows of its hub's form, and the original CSV files without a heading.

A row:  {"subject": "anatomy", "question": "...", "choices": ["...", x4], "answer": 1}
A line of a CSV file named anatomy_test.csv:  question,A,B,C,D,B
"""

from collections.abc import Iterator

from assay_shared.errors import DatasetError
from assay_shared.types import Role
from assay_trainer.data.importers.choices import choice_example
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row
from assay_trainer.data.rows import Layout

_LETTERS = "ABCD"
_COLUMNS = ("question", *_LETTERS, "answer_letter")


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    if "answer_letter" in row:
        subject = place.stem.rpartition("_")[0] or place.stem
        choices = [row.maybe_text(letter) for letter in _LETTERS]
        letter = row.text("answer_letter").strip()
        if len(letter) != 1 or letter not in _LETTERS:
            raise DatasetError(f"must be A, B, C or D, not {letter[:20]!r}", field="answer")
        answer = _LETTERS.index(letter)
    else:
        subject, choices, answer = row.text("subject"), row.texts("choices"), row.whole("answer")
    name = f"mmlu/{place.split}/{subject}/{place.number}"
    tags = {"domain": "knowledge", "family": subject}
    yield choice_example(name, "mmlu", place.role, row.text("question"), choices, answer, tags)


MMLU = PublishedFormat(
    name="mmlu",
    domain="knowledge",
    licence="MIT",
    roles={
        "auxiliary_train": Role.TRAIN,
        "dev": Role.VALIDATION,
        "validation": Role.VALIDATION,
        "test": Role.TEST,
    },
    rubric="choice",
    verified=("rows of the hub's form",),
    unverified=("hendrycks/test as CSV", "cais/mmlu as Parquet"),
    read=_read,
    layout=Layout(csv_columns=_COLUMNS),
    same_split={"val": "validation"},
)
