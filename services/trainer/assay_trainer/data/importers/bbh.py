"""BIG-Bench Hard (arXiv 2210.09261): options, numbers, or words.

A row:  {"task": "date_understanding", "input": "... Options:\\n(A) ...", "target": "(B)"}
In the original files, {"examples": [{"input": ..., "target": ...}]}, the file's name is the task.
"""

import re
from collections.abc import Iterator

from assay_shared.answers.choices.options import LETTERS, is_there_twice
from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from assay_trainer.data.importers.choices import INSTRUCTION
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row
from assay_trainer.data.rows import Layout

_OPTION = re.compile(r"^\(([A-Z])\) ?(.*)$", re.MULTILINE)
_NUMBER = re.compile(r"-?\d+")


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    family = row.text("task") if "task" in row else place.stem
    question, target = row.text("input"), row.text("target").strip()
    options = _OPTION.findall(question.partition("Options:")[2])
    checks = {}
    published, texts = question, []
    if options:
        letters = [letter for letter, _ in options]
        letter = target.strip("()")
        if letters != list(LETTERS[: len(letters)]) or letter not in letters:
            raise DatasetError(f"{target[:40]!r} is not one of the options", field="target")
        texts = [text for _, text in options]
        if is_there_twice(tuple(texts), letter):
            raise DatasetError("another option says the same as the right one", field="input")
        published = question.partition("Options:")[0]
        rubric, reference = "choice", letter
        checks = {"choice": {"options": texts, "answer": letter}}
        instruction = INSTRUCTION
        gold = f"Answer: {letter}"
    elif _NUMBER.fullmatch(target):
        rubric, reference, gold = "math", target, f"\\boxed{{{target}}}"
        instruction = "Put the final number in \\boxed{}."
    else:
        rubric, reference, gold = "qa.verified", target, target
        instruction = "Give the answer alone, without any other words."
    task = Task(
        id=f"bbh/{family}/{place.number}",
        dataset="bbh",
        role=place.role,
        prompt=f"{question}\n\n{instruction}",
        rubric=rubric,
        gold=gold,
        reference=reference,
        checks=checks,
        tags={"domain": "reasoning", "family": family},
    )
    yield ImportedRow(task, published, options=tuple(texts))


BBH = PublishedFormat(
    name="bbh",
    domain="reasoning",
    licence="MIT",
    roles={"test": Role.TEST},
    rubric="choice, math or qa.verified",
    verified=("rows with the task's name",),
    unverified=("bbh/*.json with examples", "lukaemon/bbh as Parquet"),
    read=_read,
    layout=Layout(list_key="examples"),
)
