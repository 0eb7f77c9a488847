"""Stages are done again from what is stored: with real commands, and with planted changes."""

import json
import shutil
from pathlib import Path

import pytest

from assay_trainer.pipelines.levels.reproduction import Reproduction, stored_reproduction
from assay_trainer.pipelines.runner import Pipeline, PipelineRunner
from assay_trainer.stop import Stop
from tests.support.pipelines import finish, open_pipeline, write_measured

MADE = {"kind": "command", "words": ["tasks", "--num", "3", "--output", "{folder}/tasks.jsonl"]}


def check(found: Pipeline, name: str) -> tuple[str, str]:
    one = found.stages[name]
    again = Reproduction(found.places, Stop(), lambda line: None).check(one.stage, one.folder)
    assert stored_reproduction(one.folder) == again
    return again.verdict, again.reason


@pytest.mark.slow
def test_a_command_makes_the_same_rows_again(tmp_path: Path) -> None:
    found = open_pipeline(tmp_path, {"made": MADE})
    PipelineRunner(found, Stop(), lambda name, line: None).run(["made"])
    assert check(found, "made") == (
        "PASS",
        "files as they were written: 1; the same when they are made again: 1",
    )
    file = found.stages["made"].folder.output / "tasks.jsonl"
    rows = file.read_text()
    file.write_text(rows + "\n")
    assert check(found, "made") == ("FAIL", "tasks.jsonl differs")
    file.unlink()
    assert check(found, "made") == ("FAIL", "tasks.jsonl is missing")


@pytest.mark.slow
def test_rows_that_are_not_what_the_command_makes_are_found(tmp_path: Path) -> None:
    """The digests were written after the change, so the files alone look right."""
    found = open_pipeline(tmp_path, {"made": MADE})
    output = found.stages["made"].folder.output
    output.mkdir(parents=True)
    (output / "tasks.jsonl").write_text('{"prompt": "planted"}\n')
    finish(found, "made")
    verdict, reason = check(found, "made")
    assert (verdict, reason) == ("FAIL", "tasks.jsonl differs when it is made again")


@pytest.mark.slow
def test_a_comparison_is_the_same_again_also_in_a_folder_that_was_moved(tmp_path: Path) -> None:
    evaluate = {"kind": "evaluate", "policy": "x", "sets": {"held": "held.jsonl"}}
    compare = {"kind": "compare", "evaluations": ["e", "f"], "options": {"metric": "pass@1"}}
    stages = {"e": evaluate, "f": evaluate | {"policy": "y"}, "c": compare}
    found = open_pipeline(tmp_path / "a", stages)
    for name, right in (("e", 30), ("f", 60)):
        write_measured(found, name, right)
        finish(found, name)
    PipelineRunner(found, Stop(), lambda name, line: None).run(["c"])
    assert check(found, "c")[0] == "PASS"
    shutil.move(tmp_path / "a", tmp_path / "b")
    moved = open_pipeline(tmp_path / "b", stages)
    verdict, reason = check(moved, "c")
    assert verdict == "PASS", reason


def test_numbers_that_do_not_follow_from_the_samples_are_found(tmp_path: Path) -> None:
    evaluate = {"kind": "repair", "policy": "x", "sets": {"held": "held.jsonl"}}
    found = open_pipeline(tmp_path, {"e": evaluate})
    write_measured(found, "e", 30)
    finish(found, "e")
    verdict, reason = check(found, "e")
    assert verdict == "PASS"
    assert "the numbers follow from the samples; its episodes were not scored again" in reason
    file = found.stages["e"].folder.output / "held" / "metrics.json"
    metrics = json.loads(file.read_text())
    metrics["overall"]["accepted_at_1"]["value"] = 0.9
    file.write_text(json.dumps(metrics))
    finish(found, "e")
    assert check(found, "e") == ("FAIL", "the numbers of held do not follow from its samples")


def test_a_stage_without_digests_is_open(tmp_path: Path) -> None:
    found = open_pipeline(tmp_path, {"made": MADE})
    found.stages["made"].folder.path.mkdir(parents=True)
    assert check(found, "made")[0] == "INCONCLUSIVE"
