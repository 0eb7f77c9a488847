"""Labelled examples: questions and answers of which a person has said whether they are right."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from assay_shared.errors import DatasetError
from assay_shared.types import Label

_Name = Annotated[str, StringConstraints(min_length=1)]
_MAX_EXAMPLES = 100_000


class Example(BaseModel):
    """One line. UNSURE is no gold label: an example nobody can decide measures nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: _Name
    question: _Name
    answer: str
    reference: str | None = None
    label: Literal[Label.CORRECT, Label.INCORRECT]
    domain: _Name | None = None
    #: The model that wrote the answer.
    source_model: _Name | None = None

    @property
    def is_correct(self) -> bool:
        return self.label is Label.CORRECT


@dataclass(frozen=True)
class ExampleFile:
    """What a file holds; `digest` is the SHA-256 of its bytes."""

    name: str
    digest: str
    examples: Sequence[Example]


def read_examples(path: Path) -> ExampleFile:
    """The examples of a JSONL file.

    Raises:
        DatasetError: names file, line and field of the first one that cannot be used.
    """
    try:
        content = path.read_bytes()
        text = content.decode()
    except FileNotFoundError:
        raise DatasetError(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    examples = list(_parse(path, text))
    labels = {example.label for example in examples}
    if len(labels) < 2:
        raise DatasetError(f"{path} needs examples of both labels", field="label")
    if len(examples) > _MAX_EXAMPLES:
        raise DatasetError(f"{path} has {len(examples)} examples; {_MAX_EXAMPLES} are the limit")
    return ExampleFile(path.name, hashlib.sha256(content).hexdigest(), examples)


def _parse(path: Path, text: str) -> Iterator[Example]:
    seen: dict[str, int] = {}
    # Not `splitlines`: JSON strings may hold the other characters that it splits at.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        example = _parse_line(line, where)
        if example.id in seen:
            raise DatasetError(
                f"{where}: {example.id!r} stands in line {seen[example.id]} already", field="id"
            )
        seen[example.id] = number
        yield example


def _parse_line(line: str, where: str) -> Example:
    try:
        return Example.model_validate(json.loads(line))
    except json.JSONDecodeError as error:
        raise DatasetError(f"{where}: not JSON: {error.msg}") from None
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or None
        raise DatasetError(f"{where}: {first['msg']}", field=name) from None
