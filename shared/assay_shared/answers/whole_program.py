"""The program of an answer: without its fence, and with the head that the task gives."""

import re

from assay_shared.answers.extraction import fenced
from assay_shared.text.reasoning import after_reasoning
from assay_shared.types import Task

_LAST_FUNCTION = re.compile(r"^def (\w+)\(", re.MULTILINE)


def whole_program(task: Task, answer: str) -> str:
    """Return the answer's program: without its fence, after the task's prefix.

    If the answer defines the prefix's last function again, the prefix ends in a stub (`pass`).
    Otherwise the answer is the rest of this function.
    """
    answer = after_reasoning(answer)
    blocks = fenced(answer)
    code = blocks[0] if blocks else answer
    if not task.code_prefix:
        return code
    wanted = _LAST_FUNCTION.findall(task.code_prefix)
    if wanted and wanted[-1] in _LAST_FUNCTION.findall(code):
        return f"{task.code_prefix.rstrip()}\n    pass\n\n{code}"
    return task.code_prefix + code
