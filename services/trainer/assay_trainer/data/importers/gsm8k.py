"""GSM8K's own rows (arXiv 2110.14168)."""

from collections.abc import Iterator

from assay_shared.types import Role
from assay_trainer.data.gsm8k import gsm8k_task
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    yield ImportedRow(gsm8k_task(dict(row.value), place.number, place.role), row.text("question"))


GSM8K = PublishedFormat(
    name="gsm8k",
    domain="math",
    licence="MIT",
    roles={"train": Role.TRAIN, "test": Role.TEST},
    rubric="math",
    verified=("train.jsonl", "test.jsonl"),
    unverified=("openai/gsm8k as Parquet",),
    read=_read,
)
