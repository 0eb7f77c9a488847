"""The pipeline file: stages in their order, each with its gate and its cost, and levels."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from assay_shared.settings.run_file import (
    Config,
    apply_override,
    parse_config,
    read_values,
)
from assay_trainer.pipelines.level_config import LevelConfig
from assay_trainer.pipelines.placeholders import StageName
from assay_trainer.pipelines.stage_kinds import (
    AnyStage,
    CommandStage,
    CompareStage,
    MeasuringStage,
    PairsStage,
    RejectionStage,
    ReportStage,
    Stage,
)

_MOST_LEVELS = 8


class BudgetConfig(Config):
    """The most that a pipeline may cost; it stops before that."""

    money: float = Field(gt=0)


class PipelineConfig(Config):
    """A pipeline: stages by name, in an order in which each has its inputs from earlier ones."""

    name: StageName = "pipeline"
    stages: dict[StageName, Stage] = Field(min_length=1)
    gpus: int = Field(default=0, ge=0)
    #: Money for an hour of a GPU; without GPUs, for an hour of the machine.
    price_per_hour: float = Field(default=0.0, ge=0)
    budget: BudgetConfig | None = None
    #: From the least to the greatest; each includes those before it.
    levels: Annotated[dict[StageName, LevelConfig], Field(max_length=_MOST_LEVELS)] = Field(
        default_factory=dict
    )

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
    def _samples_of_evaluations(self) -> Self:
        for name, stage in self.stages.items():
            if isinstance(stage, PairsStage | RejectionStage | CompareStage):
                names = stage.named() if isinstance(stage, CompareStage) else stage.evaluations
                for other in (one for one in names if one not in stage.after):
                    if not isinstance(self.stages[other], MeasuringStage | CommandStage):
                        raise ValueError(f"{name} reads samples, and {other} has none")
        return self

    @model_validator(mode="after")
    def _gates_have_sets(self) -> Self:
        for name, stage in self.stages.items():
            for gate in stage.gates:
                if isinstance(stage, CommandStage):
                    continue
                sets = stage.sets if isinstance(stage, MeasuringStage) else {}
                if gate.set is None and len(sets) > 1:
                    raise ValueError(f"{name}: a gate has to name one of the sets")
                if gate.set is not None and gate.set not in sets:
                    raise ValueError(
                        f"{name}: a gate names {gate.set}, which is not one of its sets"
                    )
        return self

    @model_validator(mode="after")
    def _levels_name_stages(self) -> Self:
        for level, conditions in self.levels.items():
            for one in conditions:
                for name in one.named():
                    if name not in self.stages:
                        raise ValueError(f"level {level}: there is no stage {name}")
                self._fits(level, one.kinds[0], [self.stages[name] for name in one.named()])
        return self

    def _fits(self, level: str, kind: str, stages: list[AnyStage]) -> None:
        if kind == "significant" and not isinstance(stages[0], CompareStage):
            raise ValueError(f"level {level}: significant needs a stage of kind compare")
        if kind == "error_analysis" and not isinstance(stages[0], MeasuringStage):
            raise ValueError(f"level {level}: error_analysis needs an evaluation")
        if kind == "gate" and not stages[0].gates:
            raise ValueError(f"level {level}: a stage is named that has no gates")
        if kind == "seeds" and len({one.kind for one in stages}) > 1:
            raise ValueError(f"level {level}: seeds needs stages of one kind")

    def needs(self, name: str) -> Iterator[str]:
        """Yield the stages that one needs: those that it names, and all before a report."""
        stage = self.stages[name]
        if isinstance(stage, ReportStage):
            names = list(self.stages)
            yield from names[: names.index(name)]
        else:
            yield from stage.named()


def load_pipeline(
    file: Path, overrides: tuple[str, ...], further: tuple[Path, ...] = ()
) -> PipelineConfig:
    """Return the pipeline of a file, with the changes of `further` files on top.

    In a further file, a mapping is merged into the mapping in its place, any other value replaces
    the value there, and null in the place of a stage takes it away. New stages stand first.

    Raises:
        ConfigError: a key is unknown or its value cannot be used; names the key.
    """
    values = read_values(file)
    for one in further:
        changes = read_values(one)
        ours, theirs = values.get("stages"), changes.get("stages")
        values = _merged(values, changes)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            merged = values["stages"]
            names = [name for name in theirs if name not in ours] + list(ours)
            values["stages"] = {name: merged[name] for name in names if merged[name] is not None}
    for override in overrides:
        apply_override(values, override)
    source = " with ".join(one.name for one in (file, *further))
    return parse_config(PipelineConfig, values, source=source)


def _merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the mapping with another one merged into it."""
    found = dict(values)
    for key, change in changes.items():
        there = found.get(key)
        if isinstance(there, dict) and isinstance(change, dict):
            change = _merged(there, change)
        found[key] = change
    return found
