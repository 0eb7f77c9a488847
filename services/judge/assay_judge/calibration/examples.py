"""Labelled examples: questions and answers, each labelled right or wrong by a person."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from assay_shared.errors import DatasetError
from assay_shared.runs.json_lines import read_numbered_rows
from assay_shared.types import Label

_Name = Annotated[str, StringConstraints(min_length=1)]
_MAX_EXAMPLES = 100_000
_MAX_SHOWN = 40
_LABELS = (Label.CORRECT, Label.INCORRECT)


class Example(BaseModel):
    """A line of the file. UNSURE is not a gold label: an undecidable example measures nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: _Name
    question: _Name
    answer: str
    reference: str | None = None
    label: Literal[Label.CORRECT, Label.INCORRECT]
    domain: _Name | None = None
    #: The model that wrote the answer.
    source_model: _Name | None = None

    @field_validator("label", mode="before")
    @classmethod
    def _in_plain_words(cls, label: object) -> object:
        if label in _LABELS:
            return label
        shown = json.dumps(label, default=str)[:_MAX_SHOWN]
        raise PydanticCustomError(
            "label", "must be CORRECT or INCORRECT, and is {label}", {"label": shown}
        )

    @property
    def is_correct(self) -> bool:
        return self.label is Label.CORRECT


@dataclass(frozen=True)
class ExampleFile:
    """The examples of a file; `digest` is the SHA-256 of its bytes.

    `repeated` has the numbers of lines with the question, reference and answer of an earlier line.
    They are not among the examples.
    """

    name: str
    digest: str
    examples: Sequence[Example]
    repeated: Sequence[int]


def read_examples(path: Path) -> ExampleFile:
    """Return the examples of a JSONL file.

    Raises:
        DatasetError: an example is unusable (the error names file, line and field of the first),
            two equal answers have different labels, all have the same label, there is none, or
            there are more than 100,000.
    """
    found: dict[tuple[str, str | None, str], tuple[int, Example]] = {}
    repeated: list[int] = []
    for number, example in read_numbered_rows(path, Example.model_validate, lambda one: one.id):
        key = (example.question, example.reference, example.answer)
        line, first = found.setdefault(key, (number, example))
        if first.label is not example.label:
            raise DatasetError(
                f"{path}:{number}: {example.label}, but line {line} has the same question, "
                f"reference and answer as {first.label}",
                field="label",
                hint="remove the wrong line, or both",
            )
        if line != number:
            repeated.append(number)
    examples = [example for _, example in found.values()]
    labels = {example.label for example in examples}
    if not examples:
        raise DatasetError(f"{path} has no examples")
    if len(labels) < 2:
        raise DatasetError(
            f"{path} needs examples of both labels; all are {min(labels)}", field="label"
        )
    if len(examples) > _MAX_EXAMPLES:
        raise DatasetError(f"{path} has {len(examples)} examples; {_MAX_EXAMPLES} are the limit")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return ExampleFile(path.name, digest, examples, repeated)
