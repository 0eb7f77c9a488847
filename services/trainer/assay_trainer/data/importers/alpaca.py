"""Instructions with answers: Alpaca's rows, pairs of prompt and completion, Self-Instruct's.

A row:  {"instruction": "...", "input": "", "output": "..."}
"""

from collections.abc import Iterator

from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row, RowKind


def instruction_of(row: Row) -> str:
    """Return an instruction with its input, if it has one."""
    given = row.maybe_text("input").strip()
    return f"{row.text('instruction')}\n\n{given}" if given else row.text("instruction")


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    name = f"{place.stem}/{place.split}/{place.number}"
    if "instances" in row:
        for at, one in enumerate(row.items("instances")):
            instance = _instance(row, one, at)
            yield _example(f"{name}/{at}", place, instruction_of(instance), instance, "output")
    elif "completion" in row:
        yield _example(name, place, row.text("prompt"), row, "completion")
    else:
        yield _example(name, place, instruction_of(row), row, "output")


def _instance(row: Row, one: object, at: int) -> Row:
    try:
        return Row({**Row(one).value, "instruction": row.text("instruction")})
    except DatasetError as error:
        raise DatasetError(error.message, field=f"instances.{at}") from None


def _example(name: str, place: Place, prompt: str, row: Row, field: str) -> ImportedRow:
    task = Task(
        id=name,
        dataset=place.stem,
        role=place.role,
        prompt=prompt,
        rubric="qa.verified",
        gold=row.text(field),
        tags={"domain": "instructions"},
    )
    return ImportedRow(task, prompt)


ALPACA = PublishedFormat(
    name="alpaca",
    domain="instructions",
    licence="the data's own",
    roles={"train": Role.TRAIN, "validation": Role.VALIDATION, "test": Role.TEST},
    rubric="qa.verified",
    verified=("instruction, input, output", "prompt, completion", "Self-Instruct's instances"),
    unverified=(),
    read=_read,
    kind=RowKind.DEMONSTRATIONS,
)
