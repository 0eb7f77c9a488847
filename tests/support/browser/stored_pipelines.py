"""Makes pipeline folders next to runs, by the pipelines' own code."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from assay_shared.settings.run_file import load_config
from assay_trainer.config import RunConfig
from assay_trainer.pipelines.pipeline_config import load_pipeline
from assay_trainer.pipelines.runner import Pipeline, PipelineRunner, StageFailed
from assay_trainer.pipelines.stored_pipeline import store_pipeline
from assay_trainer.service.record import create_run
from assay_trainer.stop import Stop
from tests.support.browser.stored_runs import DEMO, fill
from tests.support.pipelines import finish, write_measured
from tests.unit.trainer.evaluation.test_report import make_step

_MINUTES = {"minimum": 6, "expected": 60, "maximum": 90}


def write_pipeline(runs: Path, name: str, stages: dict[str, Any], **further: Any) -> Pipeline:
    """Write a pipeline's file and its pipeline.json; return the pipeline."""
    files, folder = runs.parent / "files", runs / name
    files.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    file = files / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"name": name, "stages": stages, **further}, sort_keys=False))
    found = Pipeline.open(folder, file, load_pipeline(file, ()))
    store_pipeline(found)
    return found


def failed_pipeline(runs: Path, name: str, bad_words: list[str]) -> Pipeline:
    """Run a pipeline whose third stage fails, and whose second stage trained a run."""
    stages = {
        "make": {"kind": "command", "words": ["tasks", "--num", "2"]},
        "learn": {"kind": "train", "run": str(DEMO), "allow_no_change": True},
        "broken": {"kind": "command", "words": bad_words, "expected_minutes": _MINUTES},
        "last": {"kind": "command", "words": ["tasks"], "after": ["broken"]},
    }
    found = write_pipeline(runs, name, stages, price_per_hour=2.0)
    runner = PipelineRunner(found, Stop(), lambda name, line: None)
    runner.run(["make"])
    run = create_run(found.stages["learn"].folder.output, load_config(RunConfig, DEMO))
    fill(run, 32)
    run.record("step", **make_step(1).model_dump(mode="json"))
    finish(found, "learn", seconds=1800.0)
    with suppress(StageFailed):
        runner.run(["broken"])
    return found


def gated_pipeline(runs: Path, name: str, action: str) -> Pipeline:
    """Make a pipeline that a failed gate of its first stage stops."""
    gate = {"metric": "accepted_at_1", "at_least": 0.6, "action": action}
    measured = {"kind": "evaluate", "policy": "x", "sets": {"held": "held.jsonl"}}
    stages = {"before": measured | {"gates": [gate]}, "after": measured | {"policy": "y"}}
    found = write_pipeline(runs, name, stages, price_per_hour=2.0)
    write_measured(found, "before", 30)
    finish(found, "before", seconds=90.0)
    return found
