"""Rows of GSM8K's own files as tasks (arXiv 2110.14168).

A row:  {"question": "...", "answer": "She sells 16 - 3 = <<16-3=13>>13 eggs.\\n#### 13"}
"""

import re

from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task

#: What a calculator was asked while the answer was written down; no part of its text.
_CALCULATION = re.compile(r"<<[^<>]*>>")
#: 1,250 and -3.5, and shares: a verifier compares its value.
_NUMBER = re.compile(r"[-+]?\$?\s?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:/0*[1-9]\d*)?\s?%?\.?")
_INSTRUCTION = "Work it out step by step. Write the number alone, after ####, in the last line."


def gsm8k_task(row: object, number: int, role: Role) -> Task:
    """Return the row as a task; the reference is the number after ####.

    Raises:
        DatasetError: a field is missing, or the answer has no number.
    """
    if not isinstance(row, dict):
        raise DatasetError(f"a row must be an object, not {type(row).__name__}")
    for name in ("question", "answer"):
        if not isinstance(row.get(name), str):
            raise DatasetError("a text is needed", field=name)
    worked, mark, value = row["answer"].rpartition("####")
    if not mark or not _NUMBER.fullmatch(value.strip()):
        raise DatasetError("there is no #### with a number after it", field="answer")
    return Task(
        id=f"gsm8k/{role}/{number}",
        dataset="gsm8k",
        role=role,
        prompt=f"{row['question']}\n\n{_INSTRUCTION}",
        rubric="math",
        gold=_CALCULATION.sub("", f"{worked}####{value}"),
        reference=value.strip(),
        tags={"domain": "math"},
    )
