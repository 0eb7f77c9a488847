"""The sides of a comparison: arms, their measurements (one for each seed), sets and tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay_trainer.evaluation.records.protocol import ProtocolKind
from assay_trainer.evaluation.records.sample_record import SampleRecord


@dataclass(frozen=True, slots=True)
class ComparedTask:
    """A task with its scored samples; the others are only counted: failed ones, and missing ones
    of an interrupted evaluation.
    """

    id: str
    prompt: str
    tags: Mapping[str, str]
    samples: Sequence[SampleRecord]
    num_failed: int = 0
    #: False for an evaluation that kept neither tokens nor times nor shares of tests passed.
    has_costs: bool = True
    #: False in a set with scored samples of which nobody knows the tokens.
    has_tokens: bool = True


@dataclass(frozen=True)
class ComparedSet:
    """A set of tasks as one evaluation measured it."""

    name: str
    tasks: Mapping[str, ComparedTask]
    #: Equal digests mean equal tasks; None if it was not recorded.
    digest: str | None = None
    #: Rubrics with their hashes; None if they were not recorded.
    scorers: tuple[str, ...] | None = None
    #: Lines of samples that a later line replaced.
    num_replaced: int = 0
    #: Tasks that the evaluation itself left out.
    num_set_aside: int = 0
    #: Seconds in which samples were generated and scored.
    played_s: float | None = None

    @property
    def num_failed(self) -> int:
        """Samples without a score."""
        return sum(task.num_failed for task in self.tasks.values())

    @property
    def samples_per_s(self) -> float | None:
        """Scored samples a second; None if the time was not recorded, or nothing was scored."""
        return self.num_scored / self.played_s if self.played_s and self.num_scored else None

    @property
    def num_scored(self) -> int:
        """Samples with a score."""
        return sum(len(task.samples) for task in self.tasks.values())


@dataclass(frozen=True)
class SeedEvaluation:
    """One evaluation of one policy."""

    name: str
    path: Path
    #: SHA-256 of the files that were read.
    files_digest: str
    policy: str
    #: SHA-256 of the weights; None if it is not known.
    policy_digest: str | None
    protocol_digest: str | None
    #: All that decides a number apart from policy and tasks, by name: protocol and engine.
    settings: Mapping[str, str]
    k: tuple[int, ...]
    #: None of a run, which has no protocol.
    kind: ProtocolKind | None
    sets: Mapping[str, ComparedSet]
    #: False if samples were still missing when it was read.
    is_finished: bool = True
    #: Sets of a finished evaluation without stored metrics, by which samples are checked.
    unchecked: tuple[str, ...] = ()
    #: Settings that differ without moving an expectation, such as the sampling seed.
    free_settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparedArm:
    """A side of the comparison: one evaluation, or several of different seeds."""

    name: str
    measurements: tuple[SeedEvaluation, ...]

    @property
    def policy_digests(self) -> tuple[str | None, ...]:
        """The digest of each seed's policy."""
        return tuple(one.policy_digest for one in self.measurements)

    def sets_of(self, name: str) -> list[ComparedSet]:
        """Return the set as each seed measured it; empty if a seed lacks it."""
        found = [one.sets[name] for one in self.measurements if name in one.sets]
        return found if len(found) == len(self.measurements) else []

    @property
    def set_names(self) -> list[str]:
        """The names of all sets of all seeds, in order."""
        return list(dict.fromkeys(name for one in self.measurements for name in one.sets))
