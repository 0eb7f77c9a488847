"""Sources of tasks in a run file, by their kinds."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from assay_shared.settings.run_file import Config
from assay_shared.types import Role
from assay_trainer.table_source import HubSource, ImportedSource, TableSource

#: Libraries take no other seeds.
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class GeneratedSource(Config):
    """Tasks from the generator: functions, sums and lookups described in words."""

    kind: Literal["generated"]
    num_tasks: int = Field(gt=0)
    seed: Seed = 0
    #: Share of each domain; they need not sum to 1.
    code: float = Field(default=0.7, ge=0)
    arithmetic: float = Field(default=0.15, ge=0)
    lookup: float = Field(default=0.15, ge=0)


class JsonlSource(Config):
    """A task per line, in the form of `assay_shared.types.Task`; `role` selects tasks."""

    kind: Literal["jsonl"]
    #: A file, or a folder: then every tasks.jsonl in it and in the folders below it.
    path: Path
    role: Role | None = None
    #: In place of each row's own rubric.
    rubric: str | None = Field(default=None, min_length=1)


class HumanEvalSource(Config):
    """HumanEval's own file; test-only. Without `path`, HumanEval.jsonl.gz under ASSAY_DATA."""

    kind: Literal["humaneval"]
    path: Path | None = None


class Gsm8kSource(Config):
    """GSM8K's own files, train.jsonl for training and test.jsonl to measure on.

    Without `path`, its folder is gsm8k under ASSAY_DATA.
    """

    kind: Literal["gsm8k"]
    path: Path | None = None
    #: Which file, in place of the one that the purpose calls for.
    split: Literal["train", "test"] | None = None


Source = Annotated[
    GeneratedSource
    | JsonlSource
    | HumanEvalSource
    | Gsm8kSource
    | TableSource
    | HubSource
    | ImportedSource,
    Field(discriminator="kind"),
]
