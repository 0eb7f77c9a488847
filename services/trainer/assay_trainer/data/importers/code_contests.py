"""CodeContests (arXiv 2203.07814): programs that read standard input.

DeepMind's row has public_tests, private_tests and generated_tests as lists of inputs and outputs,
and solutions by language number (3 is Python 3). SandboxFusion's has tests and labels as JSON
texts. The third shape has a list of tests and one solution.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from assay_shared.errors import DatasetError
from assay_shared.types import Comparison, Role, StdinCase, Task
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row, fenced

_PYTHON_3 = 3
_DECIMAL = re.compile(r"\d\.\d")
_INSTRUCTION = (
    "Write a Python program that reads standard input and writes standard output, in one fenced "
    "block."
)


def stdin_case(stdin: str, expected: str) -> StdinCase:
    """Return a case; numbers have a tolerance only where the expected text has a decimal point."""
    by_number = _DECIMAL.search(expected) is not None
    compare = Comparison.NUMBERS if by_number else Comparison.TOKENS
    return StdinCase(stdin=stdin, expected_stdout=expected, compare=compare)


def program_example(
    name: str, dataset: str, place: Place, statement: str, cases: list[StdinCase], **more: Any
) -> ImportedRow:
    """Return a task of a statement with its cases.

    Raises:
        DatasetError: there are no cases.
    """
    if not cases:
        raise DatasetError("there are no tests", field="tests")
    task = Task(
        id=name,
        dataset=dataset,
        role=place.role,
        prompt=f"{statement.strip()}\n\n{_INSTRUCTION}",
        rubric="code.dense",
        tests=tuple(cases),
        **more,
    )
    return ImportedRow(task, statement)


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    if "description" in row:
        yield _of_deepmind(row, place)
    elif "labels" in row:
        yield _of_sandbox_fusion(row, place)
    else:
        yield _with_tests(row, place)


def _of_deepmind(row: Row, place: Place) -> ImportedRow:
    cases = []
    checks = {}
    for name in ("public_tests", "private_tests", "generated_tests"):
        if name in row:
            tests = row.part(name)
            pairs = zip(tests.texts("input"), tests.texts("output"), strict=False)
            cases += [stdin_case(*pair) for pair in pairs]
        if name == "public_tests" and cases:
            checks = {"public": len(cases)}  # a policy under repair may see these
    gold = None
    if "solutions" in row:
        known = row.part("solutions")
        pairs_of = zip(known.items("language"), known.texts("solution"), strict=False)
        python = [text for language, text in pairs_of if language == _PYTHON_3]
        gold = fenced(min(python, key=len)) if python else None
    name = row.text("name")
    tags = {"domain": "code", "difficulty": str(row.value.get("difficulty", ""))}
    return program_example(
        f"code_contests/{name}",
        "code_contests",
        place,
        row.text("description"),
        cases,
        gold=gold,
        checks=checks,
        tags=tags,
    )


def _of_sandbox_fusion(row: Row, place: Place) -> ImportedRow:
    labels, tests = row.parsed("labels"), row.parsed("test")
    if not isinstance(labels, Mapping) or not isinstance(tests, list):
        raise DatasetError("must hold an object, and `test` a list", field="labels")
    cases = []
    for one in tests:
        test = Row(one)
        cases.append(stdin_case(test.part("input").maybe_text("stdin"), _stdout(test)))
    tags = {"domain": "code", "difficulty": str(labels.get("difficulty", ""))}
    name = f"code_contests/{row.whole('id')}"
    return program_example(name, "code_contests", place, row.text("content"), cases, tags=tags)


def _stdout(test: Row) -> str:
    return test.part("output").maybe_text("stdout")


def _with_tests(row: Row, place: Place) -> ImportedRow:
    statement = row.text("statement" if "statement" in row else "content")
    cases = []
    for one in row.items("tests"):
        test = Row(one)
        cases.append(stdin_case(test.maybe_text("input"), test.maybe_text("output")))
    gold = fenced(row.text("solution")) if "solution" in row else None
    tags = {"domain": "code", "difficulty": str(row.value.get("difficulty", ""))}
    if "tags" in row:
        tags["family"] = ", ".join(row.texts("tags"))
    name = f"code_contests/{row.number_or_text('id')}"
    return program_example(name, "code_contests", place, statement, cases, gold=gold, tags=tags)


CODE_CONTESTS = PublishedFormat(
    name="code_contests",
    domain="code",
    licence="CC BY 4.0",
    roles={
        "train": Role.TRAIN,
        "valid": Role.VALIDATION,
        "valid_big": Role.VALIDATION,
        "test": Role.TEST,
    },
    rubric="code.dense",
    verified=("SandboxFusion's rows", "rows with statement, tests and solution"),
    unverified=("deepmind/code_contests as Parquet",),
    read=_read,
    same_split={"validation": "valid"},
)
