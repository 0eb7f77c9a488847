"""A whole pipeline with all services: every kind of stage, and killed twenty times."""

import json
import random
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.pipelines.runner import Pipeline
from assay_trainer.pipelines.stored_pipeline import stored_pipeline
from tests.conftest import wait_until
from tests.integration.conftest import Assay

PIPELINES = Path(__file__).parents[2] / "configs" / "pipelines"
SMALL, QUICK = (
    str(PIPELINES / "small.yaml"),
    ("--with", str(PIPELINES / "small_scale" / "small.yaml")),
)
#: Twenty kills: the stage in which each comes, and the most seconds after its start.
KILLS = (
    *(("held_out", 1), ("base", 6), ("base", 8), ("verify", 5), ("before", 3), ("sft", 6)),
    *(("sft", 9), ("sft", 12), ("after_sft", 3), ("samples", 3), ("pairs", 1), ("pairs_check", 1)),
    *(("dpo", 5), ("rejection", 1), ("accepted_sft", 5), ("grpo", 5), ("grpo", 7)),
    *(("after_grpo", 3), ("compare", 2), ("handoff", 15)),
)
NUM_STAGES_KILLED = 12


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [one.data for one in RunFolder(folder).read_events() if one.kind == kind]


def under_way(folder: Path) -> str:
    """Return the stage whose command is at work; empty between two stages."""
    started = [one["stage"] for one in events(folder, "stage_started")]
    done = {one["name"] for one in events(folder, "stage_finished")}
    return "" if not started or started[-1] in done else str(started[-1])


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
        played = Counter(group_keys(one.folder.output))
        assert set(played.values()) <= {1}, one.name
    return found


def group_keys(run: Path) -> list[str]:
    """Return the keys of the groups that a run's GRPO learnt from or left out, but superseded."""
    lines = [
        json.loads(line)
        for name in ("rollouts.jsonl", "discarded.jsonl")
        if (run / name).exists()
        for line in (run / name).read_text().splitlines()
    ]
    return [one["group"]["key"] for one in lines if not one["superseded"]]


@pytest.fixture(scope="module")
def undisturbed(assay: Assay, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a pipeline with every kind of stage that ran to its end."""
    folder = tmp_path_factory.mktemp("undisturbed") / "pipeline"
    output = assay.run("pipeline", "run", SMALL, *QUICK, "--folder", str(folder), timeout_s=1200)
    assert "report.html" in output
    return folder


@pytest.mark.timeout(1500)
def test_every_kind_of_stage_runs_from_one_file(assay: Assay, undisturbed: Path) -> None:
    folder = undisturbed
    words = ("pipeline", "run", SMALL, *QUICK, "--folder", str(folder))
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


def results(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the SHA-256 of the files that are declared deterministic, and why others are not."""
    same, differing = dict[str, str](), dict[str, str]()
    for stage, one in json.loads((folder / "register.json").read_text())["stages"].items():
        for file, digest in one["outputs"].items():
            if file in one["not_deterministic"]:
                differing[f"{stage}/{file}"] = one["not_deterministic"][file]
            else:
                same[f"{stage}/{file}"] = digest
    return same, differing


def kill_in(assay: Assay, words: tuple[str, ...], folder: Path, stage: str, after_s: float) -> str:
    """Kill the pipeline some time after it began a stage; return the stage at work by then."""

    def starts() -> int:
        return sum(one.data.get("stage") == stage for one in RunFolder(folder).read_events())

    earlier, process = starts(), assay.start(*words)

    def begun() -> bool:
        assay.mesh.watch()
        return starts() > earlier or process.poll() is not None

    try:
        wait_until(begun, f"the stage {stage}", 900)
        began = time.monotonic()
        while process.poll() is None and time.monotonic() - began < after_s:
            assay.mesh.watch()
            time.sleep(0.1)
        found = under_way(folder)
        assert process.poll() is None, process.communicate()[0]
    finally:
        process.kill()
        process.communicate()
    return found


@pytest.mark.timeout(3600)
@pytest.mark.nightly
def test_the_small_example_takes_minutes(assay: Assay, tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    assay.run("pipeline", "run", SMALL, "--folder", str(folder), timeout_s=3000)
    check_whole(folder)
    levels = json.loads((folder / "report.json").read_text())["levels"]
    assert {one["level"]: one["verdict"] for one in levels}["full"] == "PASS", levels


@pytest.mark.timeout(5400)
@pytest.mark.nightly
def test_twenty_kills_change_no_result(assay: Assay, undisturbed: Path, tmp_path: Path) -> None:
    """Its results are those of a pipeline that nobody disturbed, but for what is declared."""
    folder = tmp_path / "pipeline"
    words = ("pipeline", "run", SMALL, *QUICK, "--folder", str(folder))
    moments = random.Random(1)
    killed_in = Counter[str]()
    began = time.monotonic()
    for stage, most_s in KILLS:
        killed_in[kill_in(assay, words, folder, stage, moments.uniform(0.1, 1.0) * most_s)] += 1
    assay.run(*words, timeout_s=1800)
    worked_s = time.monotonic() - began
    (tmp_path / "kills.json").write_text(json.dumps(killed_in))
    assert len(killed_in) >= NUM_STAGES_KILLED, killed_in
    found = check_whole(folder)
    assert sum(len(one.folder.attempts()) for one in found.stages.values()) > len(found.stages)
    seconds = sum(one.record.costs.seconds for one in found.stages.values() if one.record)
    assert seconds < worked_s
    (same, differing), (killed_same, killed_differing) = results(undisturbed), results(folder)
    assert killed_same == same
    assert killed_differing.keys() == differing.keys()
    assert {"base", "sft", "pairs", "dpo", "accepted_sft"} <= {one.split("/")[0] for one in same}
    # What follows from GRPO alone may have other results; before it, only records of time differ.
    stages = {name.split("/")[0] for name, why in differing.items() if "times" not in why}
    assert stages == {"grpo", "after_grpo", "repair", "compare", "handoff", "report"}
