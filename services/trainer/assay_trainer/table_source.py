"""Sources of the run file whose rows the trainer maps: local tables, datasets of a hub."""

import re
import string
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from assay_shared.settings.run_file import Config
from assay_shared.types import Role

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?")
_MOST_OF_A_REPOSITORY = 96


def check_repository_name(name: str) -> str:
    """Return the name of a hub's repository.

    Raises:
        ValueError: it is not the name of one.
    """
    is_odd = "--" in name or ".." in name or name.endswith((".git", "-", "."))
    if is_odd or len(name) > _MOST_OF_A_REPOSITORY or not _REPOSITORY.fullmatch(name):
        raise ValueError(
            "must be owner/name or a name, of letters, digits, '-', '_' and '.' (no '--' or '..'), "
            f"{_MOST_OF_A_REPOSITORY} at most"
        )
    return name


#: A repository of a hub.
RepositoryName = Annotated[str, AfterValidator(check_repository_name)]
#: A branch, a tag or a commit hash.
REVISION = r"^[\w./-]+$"


#: A column in quotes, or a doubled brace, which begins no column.
_QUOTED = re.compile(r'\{\{|\}\}|\{"(?P<column>(?:[^"\\]|\\.)+)"(?::(?P<extractor>\w*))?\}')
_PLAIN = re.compile(r"[^{}:!\"\[\]\\]+")


class Extractor(StrEnum):
    """The part of a column's value that a template takes, as in `{answer:after_hashes}`."""

    AFTER_HASHES = "after_hashes"
    BOXED = "boxed"
    NO_CALCULATOR = "no_calculator"
    LETTER = "letter"
    LETTERED = "lettered"


def template_parts(template: str) -> Iterator[tuple[str, str | None, Extractor | None]]:
    """Yield a template's parts: a literal text, and the column after it with its extractor.

    Raises:
        ValueError: a brace is not closed, a column has no name, or there is no such extractor.
    """
    at = 0
    for found in _QUOTED.finditer(template):
        if found["column"] is None:
            continue
        yield from _plain_parts(template[at : found.start()])
        column = re.sub(r"\\(.)", r"\1", found["column"])
        yield "", column, _extractor(found["extractor"])
        at = found.end()
    yield from _plain_parts(template[at:])


def _plain_parts(template: str) -> Iterator[tuple[str, str | None, Extractor | None]]:
    for literal, column, extractor, conversion in string.Formatter().parse(template):
        if column == "" or conversion:
            raise ValueError("braces hold a column's name, as in {question}; {{ and }} are braces")
        yield literal, column, _extractor(extractor)


def _extractor(name: str | None) -> Extractor | None:
    if name and name not in set(Extractor):
        raise ValueError(f"there is no extractor {name}; there are {', '.join(Extractor)}")
    return Extractor(name) if name else None


def in_braces(column: str, extractor: Extractor | None = None) -> str:
    """Return a column as a template names it: in quotes if its name has signs of templates."""
    name = column
    if not _PLAIN.fullmatch(column):
        name = '"' + re.sub(r'(["\\])', r"\\\1", column) + '"'
    return "{" + name + (f":{extractor}" if extractor else "") + "}"


def columns_of(template: str) -> list[str]:
    """Return the columns that a template names."""
    return [column for _, column, _ in template_parts(template) if column is not None]


def _names_a_column(template: str) -> str:
    if not columns_of(template):
        raise ValueError("names no column: write {question} for the column question")
    return template


#: Text with columns in braces: "{question} Answer in \\boxed{{}}."
Template = Annotated[str, AfterValidator(_names_a_column)]


class RowMap(Config):
    """How a row becomes a task."""

    prompt: Template
    #: The rubric's name, the same for each row.
    rubric: str = Field(min_length=1)
    #: A right answer, in the form a policy would give it.
    gold: Template | None = None
    #: What an answer is compared with; without it, `gold` is.
    reference: Template | None = None

    @property
    def templates(self) -> dict[str, str]:
        """Return the templates by the task's field that they make."""
        found = {"prompt": self.prompt, "gold": self.gold, "reference": self.reference}
        return {name: template for name, template in found.items() if template is not None}


class TableSource(Config):
    """A local file with a row per task: .parquet, .csv, .jsonl or .jsonl.gz."""

    kind: Literal["table"]
    path: Path
    map: RowMap
    #: The permitted use of the rows.
    role: Role


class HubFiles(Config):
    """The Parquet, CSV and JSONL files of a split of a hub's dataset."""

    kind: Literal["hub"]
    name: RepositoryName
    #: One of the dataset's configurations; needed if there are several without a default.
    config: str | None = None
    split: str = Field(min_length=1)
    #: The permitted use of the rows, in place of what the split's name says.
    role: Role | None = None
    #: A run pins it to the commit that it finds.
    revision: str | None = Field(default=None, pattern=REVISION)

    @property
    def permitted_use(self) -> Role:
        """Return `role`, else the role of the split's name; unknown names are for tests."""
        if self.role is not None:
            return self.role
        name = self.split.lower()
        if name.startswith("train"):
            return Role.TRAIN
        return Role.VALIDATION if name.startswith(("val", "dev")) else Role.TEST


class HubSource(HubFiles):
    """A dataset of a hub with a row per task."""

    map: RowMap


class PreferenceMap(Config):
    """How a row becomes a preference: a prompt, a better answer and a worse one."""

    #: A column alone may also hold the messages of a chat, the last one of the user.
    prompt: Template = "{prompt}"
    chosen: Template = "{chosen}"
    rejected: Template = "{rejected}"

    @property
    def templates(self) -> dict[str, str]:
        """Return the templates by the preference's field that they make."""
        return {"prompt": self.prompt, "chosen": self.chosen, "rejected": self.rejected}


class PreferenceFile(Config):
    """A local file with a row per preference: .jsonl, .jsonl.gz, .parquet or .csv."""

    kind: Literal["jsonl", "table"]
    path: Path
    map: PreferenceMap = PreferenceMap()


class PreferenceHub(HubFiles):
    """A dataset of a hub with a row per preference."""

    map: PreferenceMap = PreferenceMap()


class ImportedSource(Config):
    """A folder made by `assay data import`."""

    kind: Literal["imported"]
    path: Path
    #: Without it, training takes the rows for training, and a measurement the others.
    role: Role | None = None


PreferenceSource = Annotated[
    PreferenceFile | PreferenceHub | ImportedSource, Field(discriminator="kind")
]
