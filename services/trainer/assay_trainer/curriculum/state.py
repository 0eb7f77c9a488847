"""The recorded state of draws and of a curriculum: every later draw follows from it."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


class TaskPass(BaseModel):
    """A pass over a stage's tasks, from the draw `first_draw` on until the next pass begins."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: int
    #: Passes over this stage's tasks before this one.
    number: int
    first_draw: int
    #: Ids of tasks that the pool left out of this pass.
    left_out: tuple[str, ...] = ()


class RecentRate(BaseModel):
    """A task's scored and passed samples; those of a group count half of the next group's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    passed: float
    scored: float
    #: Scored samples in all.
    num_scored: int


class CurriculumState(BaseModel):
    """The stages that are sampled and learnt, the passes, and the pass rates of tasks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Places of the stages among all stages; their number once the last one has ended.
    sampled: int = 0
    learnt: int = 0
    #: Steps of the stage that is learnt.
    steps_in_stage: int = 0
    #: The last step whose end was taken into account.
    step: int = 0
    passes: tuple[TaskPass, ...] = ()
    rates: dict[str, RecentRate] = {}


@dataclass(frozen=True)
class Advance:
    """The end of a stage; `to` is None after the last one."""

    ended: str
    to: str | None
    reason: str


@dataclass(frozen=True)
class BatcherState:
    """The state of a resumed run: the next draw, and the unfinished draws."""

    next_draw: int = 0
    unfinished: tuple[int, ...] = ()
    #: Of a curriculum.
    order: CurriculumState | None = None
