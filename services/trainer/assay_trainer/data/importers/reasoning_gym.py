"""Tasks of the package reasoning-gym (arXiv 2505.24760), a row for each.

A row:  {"question": "...", "answer": "4", "metadata": {"source_dataset": "basic_arithmetic", ...}}
"""

import re
from collections.abc import Iterator

from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    question, answer = row.text("question"), row.number_or_text("answer").strip()
    family = ""
    if "metadata" in row:
        family = row.part("metadata").maybe_text("source_dataset")
    if not answer:
        raise DatasetError("must not be empty", field="answer")
    is_number = _NUMBER.fullmatch(answer) is not None
    hint = "Put the final number in \\boxed{}." if is_number else "Give the answer alone."
    task = Task(
        id=f"reasoning_gym/{place.split}/{family or 'task'}/{place.number}",
        dataset="reasoning_gym",
        role=place.role,
        prompt=f"{question}\n\n{hint}",
        rubric="math" if is_number else "qa.verified",
        gold=f"\\boxed{{{answer}}}" if is_number else answer,
        reference=answer,
        tags={"domain": "reasoning"} | ({"family": family} if family else {}),
    )
    yield ImportedRow(task, question)


REASONING_GYM = PublishedFormat(
    name="reasoning_gym",
    domain="reasoning",
    licence="Apache-2.0",
    roles={"train": Role.TRAIN, "validation": Role.VALIDATION, "test": Role.TEST},
    rubric="math or qa.verified",
    verified=("entries of a data set of the package, as JSON",),
    unverified=(),
    read=_read,
)
