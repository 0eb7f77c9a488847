"""The pipeline file: stages in their order, each with its gate and its cost."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from assay_shared.settings.run_file import Config, load_config

_NAME = r"^[a-z][a-z0-9_]{0,40}$"
#: A word in braces, as a placeholder is: JSON and YAML in braces have more than one word.
_PLACEHOLDER = re.compile(r"\{\s*([A-Za-z_]+)\s*\}")
_STAGE_PLACEHOLDER = re.compile(r"\{stage:([^{}]*)\}")


def _known_placeholders(text: str) -> str:
    if "\0" in text:
        raise ValueError("a word may not hold the character NUL")
    for found in _PLACEHOLDER.finditer(text):
        if found[0] != "{folder}":
            raise ValueError(f"there is no {found[0]}: give {{folder}} or {{stage:NAME}}")
    return text


FilledText = Annotated[str, AfterValidator(_known_placeholders)]
StageName = Annotated[str, Field(pattern=_NAME)]


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


class GateConfig(Config):
    """A bound for a number of the stage's results, with what follows from each verdict.

    `metric` is a path in metrics.json of the set, such as accepted_at_1 or code.execution_success.
    """

    set: str | None = None
    metric: str = Field(default="accepted_at_1", pattern=r"^[\w.]+$")
    at_least: float | None = None
    at_most: float | None = None
    on_fail: Literal["stop", "continue"] = "stop"
    on_inconclusive: Literal["stop", "continue"] = "continue"
    #: What a person should do after FAIL or INCONCLUSIVE.
    action: str = ""

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give exactly one of at_least and at_most")
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

    def named(self) -> Iterator[str]:
        """Yield the stages that this one names."""
        yield from self.after


class TrainStage(_Stage):
    """A run of `assay train`. Its policy is the run's last model."""

    kind: Literal["train"]
    run: Path
    overrides: dict[str, JsonValue] = Field(default_factory=dict)
    #: A stage, a folder, or a hub's name; null is the run file's own.
    policy: str | None = None

    def named(self) -> Iterator[str]:
        yield from (*self.after, *_stage_of(self.policy))


class EvaluateStage(_Stage):
    """An evaluation by `assay evaluate`."""

    kind: Literal["evaluate"]
    policy: str
    #: By name; {stage:NAME} is the folder of another stage.
    sets: dict[str, FilledText] = Field(min_length=1)
    protocol: dict[str, JsonValue] = Field(default_factory=dict)
    limit: int | None = Field(default=None, gt=0)

    def named(self) -> Iterator[str]:
        yield from (*self.after, *_stage_of(self.policy), *_stages_in(self.sets.values()))


class CompareStage(_Stage):
    """A comparison by `assay compare`; the first evaluation is the baseline."""

    kind: Literal["compare"]
    evaluations: tuple[StageName, ...] = Field(min_length=2)
    expect: Path | None = None

    def named(self) -> Iterator[str]:
        yield from (*self.after, *self.evaluations)


class HandoffStage(_Stage):
    """A checkpoint for others by `assay handoff`, which fails if a check does."""

    kind: Literal["handoff"]
    policy: str
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    min_stopping: float = Field(default=0.5, ge=0, le=1)

    def named(self) -> Iterator[str]:
        yield from (*self.after, *_stage_of(self.policy))


class AblateStage(_Stage):
    """An ablation by `assay ablate`."""

    kind: Literal["ablate"]
    file: Path
    overrides: dict[str, JsonValue] = Field(default_factory=dict)


class VerifyStage(_Stage):
    """A check of a base model by `assay verify`, which fails if the channel is not clean."""

    kind: Literal["verify"]
    policy: str
    prompts: Path | None = None
    per_kind: int = Field(default=40, ge=1, le=42)
    max_tokens: int = Field(default=96, ge=1)

    def named(self) -> Iterator[str]:
        yield from (*self.after, *_stage_of(self.policy))


class CommandStage(_Stage):
    """Any other command of `assay`, such as `data import` or `or-debug generate`.

    In its words, {folder} is the stage's own folder and {stage:NAME} that of another one.
    """

    kind: Literal["command"]
    words: tuple[FilledText, ...] = Field(min_length=1)
    #: Files and folders whose content decides the result.
    inputs: tuple[Path, ...] = ()

    def named(self) -> Iterator[str]:
        yield from (*self.after, *_stages_in(self.words))


AnyStage = (
    TrainStage
    | EvaluateStage
    | CompareStage
    | HandoffStage
    | AblateStage
    | VerifyStage
    | CommandStage
)
Stage = Annotated[AnyStage, Field(discriminator="kind")]


class BudgetConfig(Config):
    """The most that a pipeline may cost; it stops before that."""

    money: float = Field(gt=0)


class PipelineConfig(Config):
    """A pipeline: stages by name, in an order in which each has its inputs from earlier ones."""

    name: Annotated[str, Field(pattern=_NAME)] = "pipeline"
    stages: dict[StageName, Stage] = Field(min_length=1)
    gpus: int = Field(default=0, ge=0)
    #: Money for an hour of a GPU; without GPUs, for an hour of the machine.
    price_per_hour: float = Field(default=0.0, ge=0)
    budget: BudgetConfig | None = None

    @model_validator(mode="after")
    def _earlier_stages_alone(self) -> Self:
        known: set[str] = set()
        for name, stage in self.stages.items():
            for other in stage.named():
                if other not in self.stages:
                    raise ValueError(f"{name} needs {other}, and there is no such stage")
                if other not in known:
                    raise ValueError(f"{name} needs {other}, which has to stand before it")
            known.add(name)
        return self

    @model_validator(mode="after")
    def _a_budget_has_a_price(self) -> Self:
        if self.budget is not None and self.price_per_hour == 0:
            raise ValueError("budget limits nothing without price_per_hour")
        return self

    @model_validator(mode="after")
    def _gates_have_results(self) -> Self:
        for name, stage in self.stages.items():
            if stage.gates and not isinstance(stage, EvaluateStage):
                raise ValueError(f"{name} has gates, but only an evaluation has numbers for them")
            if isinstance(stage, EvaluateStage):
                for gate in stage.gates:
                    if gate.set is None and len(stage.sets) > 1:
                        raise ValueError(f"{name}: a gate has to name one of the sets")
                    if gate.set is not None and gate.set not in stage.sets:
                        raise ValueError(
                            f"{name}: a gate names {gate.set}, which is not one of its sets"
                        )
        return self


def load_pipeline(file: Path, overrides: tuple[str, ...]) -> PipelineConfig:
    """Return the pipeline of a file.

    Raises:
        ConfigError: a key is unknown or its value cannot be used; names the key.
    """
    return load_config(PipelineConfig, file, overrides)


def _stages_in(texts: Iterable[str]) -> Iterator[str]:
    """Yield the stages that texts name as {stage:NAME}."""
    for text in texts:
        yield from _STAGE_PLACEHOLDER.findall(text)


def _stage_of(policy: str | None) -> Iterator[str]:
    """Yield the stage that a policy names as `stage:NAME`."""
    if policy is not None and policy.startswith("stage:"):
        yield policy.removeprefix("stage:")
