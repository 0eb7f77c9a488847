"""HumanEval (arXiv 2107.03374), and HumanEval+ in HumanEval's own form (arXiv 2305.01210).

A row:  {"task_id": "HumanEval/0", "prompt": "def f(...", "entry_point": "f",
         "canonical_solution": "    return ...", "test": "def check(candidate): ..."}
"""

import re
from collections.abc import Iterator

from assay_shared.errors import DatasetError
from assay_shared.types import Role
from assay_trainer.data.humaneval import human_eval_task
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row

_DOCSTRING = re.compile(r'("""|\'\'\')(.*?)\1', re.DOTALL)


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    if "plus_input" in row:
        raise DatasetError(
            "the expected values of these inputs are not in the row; take "
            "HumanEvalPlus-OriginFmt.jsonl.gz, whose `test` has them",
            field="plus_input",
        )
    for name in ("task_id", "prompt", "entry_point", "canonical_solution", "test"):
        row.text(name)
    task = human_eval_task(row.value)
    docstrings = _DOCSTRING.findall(task.prompt)
    # The docstring stands in every other form of the problem too.
    yield ImportedRow(task, docstrings[-1][1] if docstrings else task.prompt)


HUMANEVAL = PublishedFormat(
    name="humaneval",
    domain="code",
    licence="MIT; HumanEval+ Apache-2.0",
    roles={"test": Role.TEST},
    rubric="code.sparse",
    verified=("HumanEval.jsonl", "HumanEvalPlus-OriginFmt.jsonl"),
    unverified=(),
    read=_read,
)
