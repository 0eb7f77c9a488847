"""IFEval (arXiv 2311.07911): prompts with instructions that a program can check.

A row:  {"key": 1000, "prompt": "...", "instruction_id_list": ["punctuation:no_comma", ...],
         "kwargs": [{}, ...]}
"""

from collections.abc import Iterator, Mapping

from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    prompt, names = row.text("prompt"), row.texts("instruction_id_list")
    given = row.items("kwargs")
    if not names or len(given) != len(names):
        raise DatasetError(f"{len(given)} kwargs for {len(names)} instructions", field="kwargs")
    kwargs = []
    for at, one in enumerate(given):
        if not isinstance(one, Mapping):
            raise DatasetError("must be an object", field=f"kwargs.{at}")
        # A table has every keyword in every row, most of them null.
        kwargs.append({name: value for name, value in one.items() if value is not None})
    task = Task(
        id=f"ifeval/{row.number_or_text('key')}",
        dataset="ifeval",
        role=place.role,
        prompt=prompt,
        rubric="instructions",
        checks={"constraints": {"instruction_id_list": names, "kwargs": kwargs}},
        tags={"domain": "instructions", "family": names[0].partition(":")[0]},
    )
    yield ImportedRow(task, prompt)


IFEVAL = PublishedFormat(
    name="ifeval",
    domain="instructions",
    licence="Apache-2.0",
    roles={"test": Role.TEST, "train": Role.TEST},
    rubric="instructions",
    verified=("input_data.jsonl",),
    unverified=("google/IFEval, whose only split is called train",),
    read=_read,
)
