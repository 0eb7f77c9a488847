"""What the pages say of pipelines. A layer above the browser reads the pipelines' folders."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from assay_shared.errors import NotFound

#: Between a pipeline and its stage, in the name of the run that the stage trained. A run's own
#: name cannot have it.
STAGE_MARK = "~"


class ShownTable(Protocol):
    """A table with its heading, and a sentence about its numbers."""

    @property
    def title(self) -> str: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def rows(self) -> Sequence[tuple[str, ...]]: ...

    @property
    def note(self) -> str: ...


@dataclass(frozen=True)
class StageFacts:
    """A stage: its state, the reason for it, and its costs; None if unknown."""

    name: str
    kind: str
    #: done, skipped, running, failed, stopped, waits, to do, unreadable.
    state: str
    #: The worst verdict of its gates; empty without gates.
    verdict: str = ""
    why: str = ""
    #: What to do.
    advice: tuple[str, ...] = ()
    #: Whether a person let the pipeline continue after its gate.
    is_overruled: bool = False
    needs: tuple[str, ...] = ()
    seconds: float | None = None
    gpu_hours: float | None = None
    tokens: float | None = None
    judge_tokens: float | None = None
    money: float | None = None
    num_attempts: int = 0
    #: The name of the run that it trained; empty without one.
    run: str = ""


@dataclass(frozen=True)
class PipelineHead:
    """A pipeline in the list of all."""

    name: str
    #: Why it has no page; empty if it has one.
    why_no_link: str = ""
    state: str = ""
    at: str = ""
    spent: float | None = None
    changed: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class PipelineFacts:
    """A pipeline in its folder."""

    head: PipelineHead
    owner: str = ""
    #: The sentences that a reader needs first.
    lead: tuple[str, ...] = ()
    stages: tuple[StageFacts, ...] = ()
    #: What is expected of the stages that are not done.
    forecast: ShownTable | None = None
    tables: tuple[ShownTable, ...] = ()
    problems: tuple[str, ...] = field(default=())


class PipelineListing(Protocol):
    """The pipelines next to the runs; each method reads files."""

    def is_empty(self) -> bool:
        """Return True if there is no pipeline."""

    def heads(self) -> list[PipelineHead]:
        """Return all pipelines, the last changed first."""

    def facts(self, name: str) -> PipelineFacts:
        """Return a pipeline.

        Raises:
            NotFound: there is no such pipeline.
            AssayError: its pipeline.json cannot be read.
        """

    def run_folder(self, name: str, stage: str) -> Path:
        """Return the folder of the run that a stage trained.

        Raises:
            NotFound: there is no such run.
            AssayError: the pipeline cannot be read.
        """


class NoPipelines:
    """The listing of a service that reads no pipelines."""

    def is_empty(self) -> bool:
        return True

    def heads(self) -> list[PipelineHead]:
        return []

    def facts(self, name: str) -> PipelineFacts:
        raise NotFound(f"there is no pipeline {name!r:.200}")

    def run_folder(self, name: str, stage: str) -> Path:
        raise NotFound(f"there is no pipeline {name!r:.200}")
