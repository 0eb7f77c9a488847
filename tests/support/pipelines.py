"""Results of pipeline stages, written by the commands' own functions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from assay_trainer.comparison.comparing import ComparisonPlan, compare_arms
from assay_trainer.comparison.loading import read_arm
from assay_trainer.comparison.report.writing import write_comparison
from assay_trainer.evaluation.metrics.measure import measure
from assay_trainer.evaluation.records.folder import read_evaluation
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import RoundRecord
from assay_trainer.pipelines.gating.gates import decide
from assay_trainer.pipelines.levels.outputs import record_outputs
from assay_trainer.pipelines.pipeline_config import load_pipeline
from assay_trainer.pipelines.runner import Pipeline
from assay_trainer.pipelines.stage_folder import StageCosts, StageRecord
from tests.support.evaluations import RIGHT, WRONG, make_sample, write_evaluation

NUM_TASKS = 100


def write_comparison_of(
    output: Path, place: Path, right: Mapping[str, int], digests: tuple[str, ...]
) -> None:
    """Write evaluations with these numbers of right tasks of 100, and compare them."""
    for (name, number), digest in zip(right.items(), digests, strict=True):
        tasks = {f"t{n}": [RIGHT if n < number else WRONG] for n in range(NUM_TASKS)}
        write_evaluation(place / name, {"held": tasks}, digest=digest * 64)
    arms = [read_arm(name, [str(place / name)]) for name in right]
    write_comparison(
        compare_arms(arms[0], arms[1:], ComparisonPlan(metrics=("pass@1",))), arms, output
    )


def open_pipeline(place: Path, stages: Mapping[str, Any], **further: Any) -> Pipeline:
    """Write a pipeline file with these stages, and open it in the folder `pipeline` next to it."""
    place.mkdir(parents=True, exist_ok=True)
    file, folder = place / "pipeline.yaml", place / "pipeline"
    file.write_text(yaml.safe_dump({"stages": dict(stages), **further}, sort_keys=False))
    folder.mkdir(exist_ok=True)
    return Pipeline.open(folder, file, load_pipeline(file, ()))


def finish(pipeline: Pipeline, name: str, *, seconds: float = 60.0, reason: str = "") -> None:
    """Write the record of a stage whose output is there, with its gates; skipped with a reason."""
    one = pipeline.stages[name]
    one.folder.path.mkdir(parents=True, exist_ok=True)
    one.record = StageRecord(
        name=name,
        kind=one.stage.kind,
        inputs=one.folder.inputs,
        state="skipped" if reason else "done",
        reason=reason,
        finished=1.0,
        costs=StageCosts(seconds=seconds, money=seconds / 3600),
        gates=() if reason else tuple(decide(one.stage, one.folder)),
    )
    if not reason:
        record_outputs(one.folder)
    one.folder.write(one.record)


def write_measured(pipeline: Pipeline, name: str, right: int, total: int = NUM_TASKS) -> None:
    """Write the evaluation of a stage with a set `held`, whole with metrics and QA log."""
    output = pipeline.stages[name].folder.output
    output.parent.mkdir(parents=True, exist_ok=True)
    tasks = {f"t{n}": [RIGHT if n < right else WRONG] for n in range(total)}
    write_evaluation(output, {"held": tasks}, digest=name.encode().hex().ljust(64, "0")[:64])
    stored = read_evaluation(output)
    metrics = measure(stored.sets["held"], stored.record.protocol)
    (output / "held" / "metrics.json").write_text(metrics.model_dump_json())
    (output / "qa").mkdir()
    (output / "qa" / "held.jsonl").write_text('{"task_id": "t1"}\n')


def write_repaired(pipeline: Pipeline, name: str) -> None:
    """Write a stage's evaluation of a task that a second round of 40 tokens solved.

    The first round sampled 60 tokens, and an answer of the control, which was wrong, 41.
    """
    output = pipeline.stages[name].folder.output
    protocol = Protocol(kind=ProtocolKind.REPAIR, temperature=1.0, rounds=2)
    write_evaluation(output, {"held": {"t": [RIGHT]}}, protocol=protocol)
    rounds = (
        RoundRecord(outcome=WRONG, pass_ratio=0.0, num_tokens=60),
        RoundRecord(outcome=RIGHT, pass_ratio=1.0, num_tokens=40),
    )
    control = (RoundRecord(outcome=WRONG, pass_ratio=0.0, num_tokens=41),)
    turns = (("a", "feedback"), ("b", ""))
    sample = make_sample("t", 0, RIGHT, rounds=rounds, control=control, turns=turns)
    (output / "held" / "samples.jsonl").write_text(sample.model_dump_json() + "\n")
    stored = read_evaluation(output)
    metrics = measure(stored.sets["held"], stored.record.protocol)
    (output / "held" / "metrics.json").write_text(metrics.model_dump_json())
