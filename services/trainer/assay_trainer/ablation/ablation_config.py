"""The ablation file: a run file as base, arms that change it, seeds, metrics and goals."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from assay_shared.runs.run_folder import RUN_NAME
from assay_shared.settings.run_file import Config
from assay_trainer.sources import Seed, Source

#: Arms and goals are told apart by name; runs are called NAME-ARM-sSEED.
_SHORT_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.]{0,31}$"
START = "start"
_RESERVED = (START, "trivial")
#: Sections of a run file that an arm may change.
CHANGEABLE = ("grpo", "curriculum")
#: But these: they are read once, for all arms.
_OF_THE_BASE = ("curriculum.from", "curriculum.arm", "curriculum.winner")

ArmName = Annotated[str, Field(pattern=_SHORT_NAME)]
Overrides = dict[str, JsonValue]


def _may_be_changed(overrides: Overrides) -> Overrides:
    for key in overrides:
        section = key.partition(".")[0]
        if section not in CHANGEABLE:
            raise ValueError(
                f"{key} cannot differ between arms: an arm changes how it learns "
                f"({' and '.join(CHANGEABLE)}), never what is measured or where it starts"
            )
        value = overrides[key]
        within = [f"{key}.{name}" for name in value] if isinstance(value, dict) else []
        for one in (key, *within):
            if one in _OF_THE_BASE:
                raise ValueError(
                    f"{one} cannot differ between arms: the base takes the winner and its start; "
                    "name the settings that differ, such as grpo.clip_high"
                )
    return overrides


class EvaluatorConfig(Config):
    """The one evaluator of the start and of all arms: sets, protocol and metrics."""

    #: Sets by name; the base's held-out set without them.
    sets: dict[Annotated[str, Field(pattern=rf"^{RUN_NAME}$")], Source] = Field(default={})
    #: The fields of `assay evaluate --protocol-file`.
    protocol: dict[str, JsonValue] = Field(default={})
    #: Random tasks of each set.
    limit: int | None = Field(default=None, gt=0)
    #: Names of metrics. All are tested together; the first one ranks.
    metrics: Annotated[tuple[str, ...], Field(min_length=1)] = ("pass@1",)
    #: Also measure at each multiple of this number of steps; else only at the end.
    curve_every: int | None = Field(default=None, gt=0)


class GoalConfig(Config):
    """A bound that the interval of a metric should be beyond."""

    metric: str
    #: An arm; without it, the winner.
    arm: str | None = None
    #: The bound is for the difference to this arm, or to `start`; else for the value itself.
    against: str | None = None
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give exactly one of at_least and at_most")
        return self


class DecompositionConfig(Config):
    """The comparison of gradients: see decomposition/verdicts.py."""

    #: First batches of the previous arm.
    batches: int = Field(default=5, ge=1, le=100)


def _each_once(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(seeds)) < len(seeds):
        raise ValueError("a seed stands there twice")
    return seeds


class AblationConfig(Config):
    """An ablation file."""

    name: str = Field(default="ablation", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$")
    #: A run file, from the folder of the ablation file. Exactly one of `base` and `run` is given.
    base: Path | None = None
    #: The run file itself.
    run: dict[str, Any] | None = None
    #: Changes of the base that all arms have.
    overrides: Overrides = Field(default={})
    #: `cumulative`: each arm has the changes of all arms before it, and is compared with the one
    #: before. `one_at_a_time`: each is the first arm with its own changes, and is compared with it.
    mode: Literal["cumulative", "one_at_a_time"] = "cumulative"
    #: By name; the first is the baseline.
    arms: dict[ArmName, Annotated[Overrides, AfterValidator(_may_be_changed)]] = Field(min_length=2)
    #: With fewer than four, no comparison is decided.
    seeds: Annotated[tuple[Seed, ...], AfterValidator(_each_once), Field(min_length=1)] = (
        1,
        2,
        3,
        4,
    )
    evaluation: EvaluatorConfig = EvaluatorConfig()
    goals: tuple[GoalConfig, ...] = ()
    decomposition: DecompositionConfig = DecompositionConfig()
    confidence: float = Field(default=0.95, ge=0.5, lt=1)

    @model_validator(mode="after")
    def _one_base(self) -> Self:
        if (self.base is None) == (self.run is None):
            raise ValueError("give exactly one of base and run")
        return self

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        taken = next((name for name in self.arms if name in _RESERVED), None)
        if taken is not None:
            raise ValueError(f"{taken} cannot name an arm: the report uses it for another row")
        for goal in self.goals:
            for name in (goal.arm, goal.against):
                if name is not None and name not in (*self.arms, START):
                    known = ", ".join((*self.arms, START))
                    raise ValueError(f"a goal names {name!r}, and the arms are {known}")
            if goal.metric not in self.evaluation.metrics:
                known = ", ".join(self.evaluation.metrics)
                raise ValueError(f"a goal is about {goal.metric!r}; evaluation.metrics are {known}")
        return self
