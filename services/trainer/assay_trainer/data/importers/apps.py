"""APPS (arXiv 2105.09938): programs by standard input, or calls of a function.

A row:  {"problem_id": 0, "question": "...", "solutions": "[\\"...\\"]", "difficulty": "interview",
         "input_output": "{\\"inputs\\": [...], \\"outputs\\": [...], \\"fn_name\\": \\"f\\"}",
         "starter_code": ""}
"""

from collections.abc import Iterator
from typing import Any

from assay_shared.errors import DatasetError
from assay_shared.types import CallCase, Role, Task
from assay_trainer.data.importers.code_contests import program_example, stdin_case
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row, fenced


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    number = row.number_or_text("problem_id" if "problem_id" in row else "id")
    cases = Row(row.parsed("input_output"))
    inputs, outputs = cases.items("inputs"), cases.items("outputs")
    if len(inputs) != len(outputs):
        raise DatasetError(
            f"{len(inputs)} inputs and {len(outputs)} outputs", field="input_output.outputs"
        )
    name, question = f"apps/{place.split}/{number}", row.text("question")
    tags = {"domain": "code", "difficulty": row.maybe_text("difficulty")}
    gold = _gold(row)
    if "fn_name" in cases:
        yield _of_calls(row, place, name, (cases.text("fn_name"), inputs, outputs), gold, tags)
        return
    pairs = zip(map(_text, inputs), map(_text, outputs), strict=True)
    stdin_cases = [stdin_case(*pair) for pair in pairs]
    yield program_example(name, "apps", place, question, stdin_cases, gold=gold, tags=tags)


def _gold(row: Row) -> str | None:
    if not row.maybe_text("solutions").strip():
        return None
    known = row.parsed("solutions")
    if not isinstance(known, list):
        raise DatasetError("must hold a list", field="solutions")
    texts = [one for one in known if isinstance(one, str) and one.strip()]
    return fenced(texts[0]) if texts else None


def _of_calls(
    row: Row,
    place: Place,
    name: str,
    cases: tuple[str, list[Any], list[Any]],
    gold: str | None,
    tags: dict[str, str],
) -> ImportedRow:
    function, inputs, outputs = cases
    tests = []
    for args, expected in zip(inputs, outputs, strict=True):
        if not isinstance(args, list):
            raise DatasetError("must hold lists of arguments", field="input_output.inputs")
        # In most rows, a single expected value stands in a list.
        alone = expected[0] if isinstance(expected, list) and len(expected) == 1 else expected
        tests.append(CallCase(function=function, args=tuple(args), expected=alone))
    if not tests:
        raise DatasetError("there are no tests", field="input_output")
    question, starter = row.text("question"), row.maybe_text("starter_code").strip()
    start = f"\n\nBegin with:\n\n```python\n{starter}\n```" if starter else ""
    task = Task(
        id=name,
        dataset="apps",
        role=place.role,
        prompt=f"{question.strip()}\n\nWrite the Python function {function}.{start}",
        rubric="code.dense",
        gold=gold,
        tests=tuple(tests),
        tags=tags,
    )
    return ImportedRow(task, question)


def _text(value: object) -> str:
    """Return standard input or output: a text, or a list of lines."""
    if isinstance(value, list):
        return "\n".join(map(str, value))
    if not isinstance(value, str):
        raise DatasetError("must hold texts or lists of lines", field="input_output")
    return value


APPS = PublishedFormat(
    name="apps",
    domain="code",
    licence="MIT",
    roles={"train": Role.TRAIN, "test": Role.TEST},
    rubric="code.dense",
    verified=(),
    unverified=("codeparrot/apps",),
    read=_read,
)
