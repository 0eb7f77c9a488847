"""The kinds of stages of a pipeline, with the fields of each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from assay_shared.settings.run_file import Config
from assay_trainer.pipelines.gate_config import GateConfig
from assay_trainer.pipelines.placeholders import (
    SERVER,
    CommandWord,
    FilledText,
    StageName,
    stage_of,
    stages_in,
    stages_in_values,
)

#: A value of a command's option: true is a flag, a list repeats the option.
OptionValue = bool | int | float | FilledText | tuple[int | float | FilledText, ...]
OptionName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class ExpectedMinutes(Config):
    """How long a stage is expected to take, before one of its kind was measured."""

    minimum: float = Field(default=0.0, ge=0)
    expected: float = Field(gt=0)
    maximum: float = Field(gt=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.minimum <= self.expected <= self.maximum:
            raise ValueError("give minimum <= expected <= maximum")
        return self


class _Stage(Config):
    #: Other stages that have to be done before, apart from those that the stage names.
    after: tuple[StageName, ...] = ()
    gates: tuple[GateConfig, ...] = ()
    expected_minutes: ExpectedMinutes | None = None
    #: GPUs that the stage occupies; null is the pipeline's number.
    gpus: int | None = Field(default=None, ge=0)
    #: Leave the stage out, with what needs it, if the budget does not allow its expected cost.
    skip_when_short: bool = False
    #: Do not check that the stage changed or made anything.
    allow_no_change: bool = False

    def named(self) -> Iterator[str]:
        """Yield the stages that this one names."""
        yield from self.after


class TrainStage(_Stage):
    """A run of `assay train`. Its policy is the run's last model."""

    kind: Literal["train"]
    run: Path
    #: By dotted key; {stage:NAME} within a text is the folder of another stage.
    overrides: dict[str, JsonValue] = Field(default_factory=dict)
    #: A stage, a folder, or a hub's name; null is the run file's own.
    policy: str | None = None
    #: Updates of a short run before, whose checkpoint is loaded; null makes none.
    smoke_steps: int | None = Field(default=None, gt=0)

    def named(self) -> Iterator[str]:
        yield from (*self.after, *stage_of(self.policy), *stages_in_values(self.overrides))


class MeasuringStage(_Stage):
    """An evaluation by `assay evaluate`."""

    policy: str
    #: By name; {stage:NAME} is the folder of another stage.
    sets: dict[str, FilledText] = Field(min_length=1)
    protocol: dict[str, JsonValue] = Field(default_factory=dict)
    limit: int | None = Field(default=None, gt=0)
    #: Further options of the command.
    options: dict[OptionName, OptionValue] = Field(default_factory=dict)

    def named(self) -> Iterator[str]:
        yield from (*self.after, *stage_of(self.policy), *stages_in(self.sets.values()))
        yield from _stages_in_options(self.options)


class EvaluateStage(MeasuringStage):
    """An evaluation by any protocol."""

    kind: Literal["evaluate"]


class RepairStage(MeasuringStage):
    """An evaluation of several rounds, with feedback between them."""

    kind: Literal["repair"]


class CompareStage(_Stage):
    """A comparison by `assay compare`; the first evaluation is the baseline."""

    kind: Literal["compare"]
    evaluations: tuple[StageName, ...] = ()
    #: In their place, sides by name: the evaluations of the seeds of one.
    arms: dict[StageName, tuple[StageName, ...]] = Field(default_factory=dict)
    expect: Path | None = None
    options: dict[OptionName, OptionValue] = Field(default_factory=dict)

    def named(self) -> Iterator[str]:
        names = (name for seeds in self.sides.values() for name in seeds)
        yield from (*self.after, *names, *_stages_in_options(self.options))

    @property
    def sides(self) -> dict[str, tuple[str, ...]]:
        """The evaluations of each side by its name; the first side is the baseline."""
        return dict(self.arms) or {name: (name,) for name in self.evaluations}

    @model_validator(mode="after")
    def _two_sides(self) -> Self:
        if bool(self.evaluations) == bool(self.arms):
            raise ValueError("give exactly one of evaluations and arms")
        if len(self.sides) < 2 or not all(self.sides.values()):
            raise ValueError("give at least two sides, each with an evaluation")
        return self


class HandoffStage(_Stage):
    """A checkpoint for others by `assay handoff`, which fails if a check does."""

    kind: Literal["handoff"]
    policy: str
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    min_stopping: float = Field(default=0.5, ge=0, le=1)
    options: dict[OptionName, OptionValue] = Field(default_factory=dict)

    def named(self) -> Iterator[str]:
        yield from (*self.after, *stage_of(self.policy), *_stages_in_options(self.options))


class AblateStage(_Stage):
    """An ablation by `assay ablate`."""

    kind: Literal["ablate"]
    file: Path
    overrides: dict[str, JsonValue] = Field(default_factory=dict)

    def named(self) -> Iterator[str]:
        yield from (*self.after, *stages_in_values(self.overrides))


class VerifyStage(_Stage):
    """A check of a base model by `assay verify`, which fails if the channel is not clean."""

    kind: Literal["verify"]
    policy: str
    prompts: Path | None = None
    per_kind: int = Field(default=40, ge=1, le=42)
    max_tokens: int = Field(default=96, ge=1)

    def named(self) -> Iterator[str]:
        yield from (*self.after, *stage_of(self.policy))


class SFTDataStage(_Stage):
    """Instructions and answers made by a policy, by `assay data instructions`."""

    kind: Literal["sft_data"]
    file: Path
    #: A stage, a folder, or a hub's name; null is the file's own.
    policy: str | None = None
    options: dict[OptionName, OptionValue] = Field(default_factory=dict)

    def named(self) -> Iterator[str]:
        yield from (*self.after, *stage_of(self.policy), *_stages_in_options(self.options))


class _FromSamples(_Stage):
    #: Stages of kind evaluate or repair, whose stored samples are read.
    evaluations: tuple[StageName, ...] = Field(min_length=1)
    options: dict[OptionName, OptionValue] = Field(default_factory=dict)

    def named(self) -> Iterator[str]:
        yield from (*self.after, *self.evaluations, *_stages_in_options(self.options))


class PairsStage(_FromSamples):
    """Preferences from the samples of evaluations, by `assay data pairs`."""

    kind: Literal["pairs"]


class RejectionStage(_FromSamples):
    """Demonstrations from the accepted samples of evaluations, by `assay data rejection`."""

    kind: Literal["rejection"]


class ReportStage(_Stage):
    """The report of the stages before it, by `assay pipeline report`."""

    kind: Literal["report"]


class CommandStage(_Stage):
    """Any other command of `assay`, such as `data import` or `or-debug generate`.

    In its words, {folder} is the stage's own folder and {stage:NAME} that of another one.
    """

    kind: Literal["command"]
    words: tuple[CommandWord, ...] = Field(min_length=1)
    #: Files and folders whose content decides the result.
    inputs: tuple[Path, ...] = ()
    #: A policy that an engine serves meanwhile; its address is {server} in the words.
    serve: str | None = None

    def named(self) -> Iterator[str]:
        yield from (*self.after, *stages_in(self.words), *stage_of(self.serve))

    @model_validator(mode="after")
    def _server_is_asked(self) -> Self:
        if (self.serve is None) == any(SERVER in word for word in self.words):
            raise ValueError(f"serve goes with {SERVER} in the words")
        return self


AnyStage = (
    TrainStage
    | EvaluateStage
    | RepairStage
    | CompareStage
    | HandoffStage
    | AblateStage
    | VerifyStage
    | SFTDataStage
    | PairsStage
    | RejectionStage
    | ReportStage
    | CommandStage
)
Stage = Annotated[AnyStage, Field(discriminator="kind")]


def _stages_in_options(options: dict[OptionName, OptionValue]) -> Iterator[str]:
    for value in options.values():
        given = value if isinstance(value, tuple) else (value,)
        yield from stages_in(one for one in given if isinstance(one, str))
