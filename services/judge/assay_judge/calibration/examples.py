"""Labelled examples: questions and answers, each labelled right or wrong by a person."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from assay_shared.errors import DatasetError
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.types import Label

_Name = Annotated[str, StringConstraints(min_length=1)]
_MAX_EXAMPLES = 100_000


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

    @property
    def is_correct(self) -> bool:
        return self.label is Label.CORRECT


@dataclass(frozen=True)
class ExampleFile:
    """The examples of a file; `digest` is the SHA-256 of its bytes."""

    name: str
    digest: str
    examples: Sequence[Example]


def read_examples(path: Path) -> ExampleFile:
    """Return the examples of a JSONL file.

    Raises:
        DatasetError: an example is unusable (the error names file, line and field of the first),
            all have the same label, or there are more than 100,000.
    """
    examples = list(read_json_lines(path, Example.model_validate, lambda example: example.id))
    labels = {example.label for example in examples}
    if len(labels) < 2:
        raise DatasetError(f"{path} needs examples of both labels", field="label")
    if len(examples) > _MAX_EXAMPLES:
        raise DatasetError(f"{path} has {len(examples)} examples; {_MAX_EXAMPLES} are the limit")
    return ExampleFile(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), examples)
