"""What stages cost, what is expected of the rest, and what the budget allows."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from assay_shared.runs.json_lines import read_json_lines
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.evaluation.records.sample_record import SampleRecord
from assay_trainer.pipelines.pipeline_config import PipelineConfig
from assay_trainer.pipelines.stage_folder import StageCosts, StageFolder, StageRecord, read_record
from assay_trainer.pipelines.stage_kinds import AnyStage, MeasuringStage

_HOUR_S = 3600.0


@dataclass(frozen=True)
class Forecast:
    """Expected hours and money of a stage; None where nothing is known."""

    hours: float | None
    money: float | None
    #: measured, stated in the file, or unknown.
    source: str
    minimum_hours: float | None = None
    maximum_hours: float | None = None


def costs_of(stage: AnyStage, folder: StageFolder, config: PipelineConfig) -> StageCosts:
    """Return what a stage cost: time from its attempts, tokens and judge from its results."""
    seconds = folder.seconds()
    tokens = judge_tokens = judge_money = 0.0
    if isinstance(stage, MeasuringStage):
        for name in stage.sets:
            file = folder.output / name / "metrics.json"
            overall = json.loads(file.read_text())["overall"] if file.exists() else {}
            if overall.get("repair"):
                tokens += _control_tokens(folder.output / name)
            if costs := overall.get("costs"):
                tokens += (costs["tokens"] or {}).get("total", 0.0)
                judge_tokens += costs["judge_tokens"]
                judge_money += costs["money"]
    else:
        tokens = _learnt_tokens(RunFolder(folder.output))
    return StageCosts(
        seconds=seconds,
        gpu_hours=seconds / _HOUR_S * _gpus(stage, config),
        tokens=tokens,
        judge_tokens=judge_tokens,
        money=seconds / _HOUR_S * rate(stage, config) + judge_money,
    )


def _control_tokens(folder: Path) -> int:
    """Return the tokens of the answers that a repair is compared with; no metric has them alone."""
    file = folder / "samples.jsonl"
    samples = read_json_lines(file, SampleRecord.model_validate) if file.exists() else ()
    return sum(one.num_tokens for sample in samples for one in sample.control)


def rate(stage: AnyStage, config: PipelineConfig) -> float:
    """Return the price of an hour of a stage."""
    return config.price_per_hour * max(1, _gpus(stage, config))


def _gpus(stage: AnyStage, config: PipelineConfig) -> int:
    return config.gpus if stage.gpus is None else stage.gpus


def forecast(stage: AnyStage, config: PipelineConfig, earlier: Iterable[StageRecord]) -> Forecast:
    """Return the expected cost: of the stage's last run with other inputs, else of the file."""
    price = rate(stage, config)
    measured = sorted(earlier, key=lambda one: one.finished)
    if measured:
        hours = measured[-1].costs.seconds / _HOUR_S
        return Forecast(hours, hours * price, "measured", hours, hours)
    stated = stage.expected_minutes
    if stated is None:
        return Forecast(None, None, "unknown")
    hours = stated.expected / 60
    return Forecast(hours, hours * price, "stated", stated.minimum / 60, stated.maximum / 60)


def earlier_records(pipeline: Path, name: str) -> list[StageRecord]:
    """Return the records of a stage with any inputs.

    Raises:
        DatasetError: one is not as it was written.
    """
    files = sorted((pipeline / "stages" / name).glob("*/stage.json"))
    return [one for one in map(read_record, files) if one.state == "done"]


def _learnt_tokens(run: RunFolder) -> float:
    """Return the tokens that a run's GRPO has learnt, from its events; 0 of other commands."""
    steps = (event.data for event in run.read_events() if event.kind == "step")
    return sum(float(str(step.get("num_tokens", 0))) for step in steps)
