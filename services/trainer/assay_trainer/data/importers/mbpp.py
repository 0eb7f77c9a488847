"""MBPP and its sanitized part (arXiv 2108.07732). The ids tell the split.

A row:  {"task_id": 2, "text": "Write a function ...", "code": "def f(x): ...",
         "test_setup_code": "", "test_list": ["assert f(1) == 2", ...]}
"""

from collections.abc import Iterator

from assay_shared.errors import DatasetError
from assay_shared.types import AssertCase, Role, Task
from assay_trainer.data.importers.format import (
    ImportedRow,
    OtherSplit,
    Place,
    PublishedFormat,
    Row,
    fenced,
)

#: `reg` (MBPP_reg) are the first 200 test ids, for quick checks between trainings.
_IDS = {
    "prompt": range(1, 11),
    "test": range(11, 511),
    "validation": range(511, 601),
    "train": range(601, 975),
    "reg": range(11, 211),
}


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    number = row.whole("task_id")
    if number not in range(1, 975):
        raise DatasetError(f"{number} is not an id of MBPP (1 to 974)", field="task_id")
    if number not in _IDS[place.split]:
        raise OtherSplit(f"{number} is not an id of split {place.split}", field="task_id")
    question = row.text("text" if "text" in row else "prompt")
    tests = row.texts("test_list")
    if not tests:
        raise DatasetError("must not be empty", field="test_list")
    imports = row.texts("test_imports") if "test_imports" in row else []
    before = "\n".join([row.maybe_text("test_setup_code"), *imports]).replace("\r", "").strip()
    shown = "\n".join(tests)
    task = Task(
        id=f"mbpp/{number}",
        dataset="mbpp",
        role=place.role,
        prompt=f"{question}\n\nThe function must pass these tests:\n\n```python\n{shown}\n```",
        rubric="code.sparse",
        gold=fenced(row.text("code")),
        tests=tuple(AssertCase(code=f"{before}\n{one}\n".lstrip()) for one in tests),
        tags={"domain": "code"},
    )
    yield ImportedRow(task, question)


MBPP = PublishedFormat(
    name="mbpp",
    domain="code",
    licence="CC BY 4.0",
    roles={
        "prompt": Role.TRAIN,
        "train": Role.TRAIN,
        "validation": Role.VALIDATION,
        "reg": Role.VALIDATION,
        "test": Role.TEST,
    },
    rubric="code.sparse",
    verified=("mbpp.jsonl", "sanitized-mbpp as JSON Lines"),
    unverified=("google-research-datasets/mbpp as Parquet",),
    read=_read,
)
