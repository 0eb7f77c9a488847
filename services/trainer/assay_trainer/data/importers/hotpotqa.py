"""HotpotQA (arXiv 1809.09600): questions over paragraphs, or without them.

A row:  {"id": "...", "question": "...", "answer": "yes", "type": "comparison", "level": "hard",
         "context": [["Title", ["A sentence.", ...]], ...]}
On the hub, `context` is {"title": [...], "sentences": [[...], ...]}.
"""

from collections.abc import Iterator, Mapping

from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row

_INSTRUCTION = "Answer with a few words alone."


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    if "split" in row:
        place.wants(row.text("split"))
    question, answer = row.text("question"), row.text("answer")
    own = row.value.get("id", row.value.get("_id"))
    name = own if isinstance(own, str) else f"{place.split}/{place.number}"
    paragraphs = "".join(f"{title}\n{text}\n\n" for title, text in _paragraphs(row))
    tags = {
        "domain": "qa",
        "family": row.maybe_text("type"),
        "difficulty": row.maybe_text("level"),
    }
    task = Task(
        id=f"hotpotqa/{name}",
        dataset="hotpotqa",
        role=place.role,
        prompt=f"{paragraphs}{question}\n\n{_INSTRUCTION}",
        rubric="qa.verified",
        gold=answer,
        reference=answer,
        tags={name: text for name, text in tags.items() if text},
    )
    yield ImportedRow(task, question)


def _paragraphs(row: Row) -> Iterator[tuple[str, str]]:
    """Yield each paragraph's title and text."""
    if "context" not in row:
        return
    if isinstance(row.value["context"], Mapping):
        parts = row.part("context")
        pairs = list(zip(parts.texts("title"), parts.items("sentences"), strict=False))
    else:
        pairs = row.items("context")
    for at, pair in enumerate(pairs):
        match pair:
            case [str(title), [*sentences]] | (str(title), [*sentences]):
                yield title, "".join(map(str, sentences)).strip()
            case _:
                raise DatasetError("must be a title and sentences", field=f"context.{at}")


HOTPOTQA = PublishedFormat(
    name="hotpotqa",
    domain="qa",
    licence="CC BY-SA 4.0",
    roles={"train": Role.TRAIN, "dev": Role.VALIDATION, "test": Role.TEST},
    rubric="qa.verified",
    verified=("the official rows", "the hub's rows", "rows without context"),
    unverified=("hotpotqa/hotpot_qa as Parquet",),
    read=_read,
    same_split={"validation": "dev"},
)
