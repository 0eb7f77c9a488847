"""A whole pipeline with all services: every kind of stage, and killed twenty times."""

import json
import random
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from assay_trainer.pipelines.runner import Pipeline
from assay_trainer.pipelines.stored_pipeline import stored_pipeline
from tests.integration.conftest import Assay

PIPELINES = Path(__file__).parents[2] / "configs" / "pipelines"
SMALL, QUICK = (
    str(PIPELINES / "small.yaml"),
    ("--with", str(PIPELINES / "small_scale" / "small.yaml")),
)
NUM_KILLS = 20


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [one["data"] for one in map(json.loads, lines) if one["kind"] == kind]


def check_whole(folder: Path) -> Pipeline:
    """Check that each stage was done once, without overlap, and that each sample stands once."""
    found = stored_pipeline(folder)
    assert Counter(one["name"] for one in events(folder, "stage_finished")) == Counter(
        list(found.stages)
    )
    for one in found.stages.values():
        spans = [(a.started, a.ended or 0.0) for a in one.folder.attempts()]
        assert all(ended <= started for (_, ended), (started, _) in pairwise(spans)), one.name
        for file in one.folder.output.glob("*/samples.jsonl"):
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            keys = Counter((row["task_id"], row["index"]) for row in rows)
            assert set(keys.values()) == {1}, file
    return found


@pytest.mark.timeout(600)
def test_every_kind_of_stage_runs_from_one_file(assay: Assay, tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    words = ("pipeline", "run", SMALL, *QUICK, "--folder", str(folder))
    output = assay.run(*words, timeout_s=600)
    assert "report.html" in output
    check_whole(folder)
    report = json.loads((folder / "report.json").read_text())
    levels = {one["level"]: one["verdict"] for one in report["levels"]}
    assert levels["minimum"] != "FAIL", report["levels"]
    assert levels["publication"] != "FAIL", report["levels"]
    register = json.loads((folder / "register.json").read_text())
    assert {"base", "sft", "dpo", "grpo", "handoff"} <= register["models"].keys()
    assert {"pairs", "rejection"} <= register["data"].keys()
    assert assay.run(*words), "nothing is done again"
    assert len(events(folder, "stage_finished")) == len(report["stages"])


@pytest.mark.timeout(3600)
@pytest.mark.nightly
def test_the_small_example_takes_minutes_and_survives_twenty_kills(
    assay: Assay, tmp_path: Path
) -> None:
    folder = tmp_path / "pipeline"
    words = ("pipeline", "run", SMALL, "--folder", str(folder))
    moments = random.Random(1)
    worked_s = 0.0
    for _ in range(NUM_KILLS):
        process = assay.start(*words)
        began, limit_s = time.monotonic(), moments.uniform(3, 30)
        while process.poll() is None and time.monotonic() - began < limit_s:
            assay.mesh.watch()
            time.sleep(0.1)
        process.kill()
        process.communicate()
        worked_s += time.monotonic() - began
    began = time.monotonic()
    assay.run(*words, timeout_s=1800)
    worked_s += time.monotonic() - began
    found = check_whole(folder)
    assert sum(len(one.folder.attempts()) for one in found.stages.values()) > len(found.stages)
    seconds = sum(one.record.costs.seconds for one in found.stages.values() if one.record)
    assert seconds < worked_s
    levels = json.loads((folder / "report.json").read_text())["levels"]
    assert {one["level"]: one["verdict"] for one in levels}["full"] == "PASS", levels
