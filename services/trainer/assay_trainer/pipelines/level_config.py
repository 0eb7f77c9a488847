"""Levels of success of a pipeline: conditions that its results have to meet."""

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import model_validator

from assay_shared.settings.run_file import Config
from assay_trainer.pipelines.gate_config import MetricPath
from assay_trainer.pipelines.placeholders import StageName


class ConditionConfig(Config):
    """A condition of a level, by exactly one of the fields with stages."""

    #: The stage is done.
    done: StageName | None = None
    #: All gates of the stage pass, or that of `metric` alone.
    gate: StageName | None = None
    #: A comparison finds an arm better, by the corrected test: in `set` and by `metric`.
    significant: StageName | None = None
    #: Stages that differ in a seed alone, of one kind, with results.
    seeds: tuple[StageName, ...] = ()
    #: The evaluation has samples of every outcome written down for people to read.
    error_analysis: StageName | None = None
    #: The stage's files are those that were made, and its numbers follow from its samples.
    reproduce: StageName | None = None
    set: str | None = None
    metric: MetricPath | None = None
    #: An arm of the comparison; null is every arm.
    arm: StageName | None = None
    #: What is to be found.
    finding: Literal["better", "not_worse"] = "better"

    @model_validator(mode="after")
    def _one_condition(self) -> Self:
        if len(self.kinds) != 1:
            raise ValueError(
                "give exactly one of done, gate, significant, seeds, error_analysis and reproduce"
            )
        if self.seeds and len(set(self.seeds)) < 2:
            raise ValueError("seeds needs at least two stages")
        if self.metric is not None and not (self.gate or self.significant):
            raise ValueError("metric goes with gate or significant")
        if (self.set or self.arm) and not (self.significant or self.gate):
            raise ValueError("set and arm go with significant, and set with gate")
        return self

    @property
    def kinds(self) -> list[str]:
        """The given conditions: exactly one after the check."""
        names = ("done", "gate", "significant", "seeds", "error_analysis", "reproduce")
        return [name for name in names if getattr(self, name)]

    def named(self) -> Iterator[str]:
        """Yield the stages that the condition names."""
        given = getattr(self, self.kinds[0])
        yield from given if isinstance(given, tuple) else (given,)

    @property
    def told(self) -> str:
        """The condition in words."""
        more = [one for one in (self.set, self.arm, self.metric) if one is not None]
        if self.significant and self.finding == "not_worse":
            more.append("not worse")
        return " ".join([self.kinds[0].replace("_", " "), *self.named(), *more])


#: The conditions of a level.
LevelConfig = tuple[ConditionConfig, ...]
