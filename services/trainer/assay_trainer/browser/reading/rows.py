"""Groups and samples as lists show them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SampleCell:
    """A sample in a list. `place` is -1 where a whole group failed without samples."""

    place: int
    outcome: str
    failure_class: str
    reward: float | None
    num_tokens: int
    matches: bool


@dataclass(frozen=True)
class GroupRow:
    """A group in a list, with all of its samples."""

    id: int
    #: File and first byte, as rollouts.jsonl:0: a key can come again after a resume.
    at: str
    step: int
    key: str
    task: str
    dataset: str
    reason: str
    superseded: bool
    version: int | None
    generate_s: float
    score_s: float
    samples: tuple[SampleCell, ...]


@dataclass(frozen=True)
class SampleAddress:
    """A sample by its group's key, its place in the group, and the group's `at`."""

    key: str
    place: int
    at: str


@dataclass(frozen=True)
class GroupPage:
    """Some groups in the order of their steps; `after` continues the list, empty at its end."""

    groups: tuple[GroupRow, ...]
    after: str
