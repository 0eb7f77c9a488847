"""The settings of a curriculum in the run file: stages of tasks, and when each one ends."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from assay_shared.runs.run_folder import RUN_NAME
from assay_shared.settings.run_file import Config

#: Values of tags that a task must have, such as {difficulty: [easy, medium], error_type: D}.
Where = dict[str, str | Annotated[tuple[str, ...], Field(min_length=1)]]


class MixPart(Config):
    """A part of a mixed stage; samples are shared among the parts by their weights."""

    where: Where
    weight: float = Field(default=1.0, gt=0)


class PassRateConfig(Config):
    """The end of a stage by its pass rate on its held-out tasks."""

    #: The stage ends once the lower bound of the interval is at least this.
    pass_rate: float = Field(gt=0, lt=1)
    #: Steps that the stage has at least, and at most.
    min_steps: int = Field(gt=0)
    max_steps: int = Field(gt=0)
    #: Steps from one measurement to the next.
    every: int = Field(default=5, gt=0)
    confidence: float = Field(default=0.95, gt=0, lt=1)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max_steps < self.min_steps:
            raise ValueError("max_steps must be at least min_steps")
        return self


class StageConfig(Config):
    """A stage: its tasks, and exactly one of `steps`, `epochs` and `until`."""

    name: str = Field(pattern=rf"^{RUN_NAME}$")
    #: The tasks of the stage; all training tasks without `where` and `mix`.
    where: Where = Field(default={})
    #: Parts in place of `where`, each with its share of the samples.
    mix: tuple[MixPart, ...] = ()
    steps: int | None = Field(default=None, gt=0)
    #: Passes over the tasks of the stage: each task is sampled once in each.
    epochs: int | None = Field(default=None, gt=0)
    until: PassRateConfig | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if [self.steps, self.epochs, self.until].count(None) != 2:
            raise ValueError("give exactly one of steps, epochs and until")
        if self.where and self.mix:
            raise ValueError("give where or mix, not both")
        if self.epochs is not None and len({one.weight for one in self.mix}) > 1:
            raise ValueError(
                "weights that differ go with steps or until: in an epoch, each task is sampled once"
            )
        return self

    @property
    def most_steps(self) -> int | None:
        """Return the most steps of the stage; None where epochs give them."""
        return self.until.max_steps if self.until is not None else self.steps


class PoolConfig(Config):
    """Tasks that the policy always or never solves are sampled less often."""

    #: Share of the passes over a stage's tasks that such a task is in.
    rare_share: float = Field(default=0.25, gt=0, lt=1)
    #: Such a task has a pass rate of at most `low` or at least `high`.
    low: float = Field(default=0.05, ge=0, lt=1)
    high: float = Field(default=0.95, gt=0, le=1)
    #: Scored samples of a task from which on its pass rate counts; newer groups count twice.
    least_samples: int = Field(default=8, gt=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.high <= self.low:
            raise ValueError("high must be above low")
        return self


class StageMeasureConfig(Config):
    """The measurements of all stages on held-out tasks, at the end of each stage."""

    #: Held-out tasks of each stage, the same in every run; all without it.
    limit: int | None = Field(default=None, gt=0)


class TakenArm(Config):
    """The arm of an ablation that a run has its settings and its start from; filled in."""

    arm: str
    #: Of the first weights.
    digest: str
    overrides: dict[str, JsonValue] = Field(default={})


class CurriculumConfig(Config):
    """The stages of GRPO, in order."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_alias=True)

    stages: tuple[StageConfig, ...] = Field(min_length=1, max_length=64)
    #: Null samples each task equally often.
    pool: PoolConfig | None = None
    #: Null measures nothing between the evaluations before and after GRPO.
    measure: StageMeasureConfig | None = StageMeasureConfig()
    #: The folder of an ablation: its winner's settings and start are this run's.
    from_: Path | None = Field(default=None, alias="from")
    #: An arm of the ablation to take where no arm has won.
    arm: str | None = None
    #: Filled in from `from` when a run begins.
    winner: TakenArm | None = None

    @model_validator(mode="after")
    def _stages_fit(self) -> Self:
        names = [one.name for one in self.stages]
        if len(set(names)) < len(names):
            raise ValueError("each stage needs its own name")
        for one in self.stages:
            if one.epochs is not None and self.pool is not None:
                raise ValueError(
                    f"pool goes with steps or until, and {one.name} has epochs: "
                    "in an epoch, each task is sampled once"
                )
            if one.until is not None and self.measure is None:
                raise ValueError(f"{one.name} ends by a pass rate, so measure cannot be null")
        if self.arm is not None and self.from_ is None:
            raise ValueError("arm goes with from")
        if (self.from_ is None) != (self.winner is None):
            raise ValueError("winner is filled in from `from` when a run begins: leave it out")
        return self
