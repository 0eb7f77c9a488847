"""Each stage runs once for its inputs: with real commands, that are killed, changed and refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.errors import BudgetExceeded, Conflict, NotFound
from assay_trainer.pipelines.operation import selected
from assay_trainer.pipelines.pipeline_config import load_pipeline
from assay_trainer.pipelines.reporting.writing import write_report
from assay_trainer.pipelines.runner import GateStopped, Pipeline, PipelineRunner, StageFailed
from assay_trainer.stop import Stop

pytestmark = pytest.mark.slow
LIMIT_S = 120


def generate(per_cell: int, *, seed: int = 7) -> dict[str, Any]:
    words = "or-debug generate --output {folder} --types D --difficulties easy"
    sizes = ["--per-cell", str(per_cell), "--seed", str(seed)]
    return {"kind": "command", "words": [*words.split(), *sizes]}


def write(tmp_path: Path, stages: dict[str, Any], **further: Any) -> Path:
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump({"stages": stages, **further}, sort_keys=False))
    return file


def opened(tmp_path: Path) -> Pipeline:
    file = tmp_path / "pipeline.yaml"
    folder = tmp_path / "pipeline"
    folder.mkdir(exist_ok=True)
    return Pipeline.open(folder, file, load_pipeline(file, ()))


def run(tmp_path: Path, *names: str) -> Pipeline:
    found = opened(tmp_path)
    runner = PipelineRunner(found, Stop(), lambda name, line: None)
    runner.run(list(names) or list(found.stages))
    return found


def num_attempts(pipeline: Pipeline) -> list[int]:
    return [len(one.folder.attempts()) for one in pipeline.stages.values()]


def test_a_stage_is_done_again_only_for_other_inputs(tmp_path: Path) -> None:
    first, needs = generate(2), generate(2, seed=8) | {"after": ["first"]}
    write(tmp_path, {"first": first, "needs": needs, "apart": generate(2, seed=9)})
    run(tmp_path)
    assert num_attempts(run(tmp_path)) == [1, 1, 1]
    again = generate(3)
    write(tmp_path, {"first": again, "needs": needs, "apart": generate(2, seed=9)})
    changed = opened(tmp_path)
    assert [one.record is None for one in changed.stages.values()] == [True, True, False]
    assert changed.stages["first"].expected.source == "measured"
    done = run(tmp_path)
    assert num_attempts(done) == [1, 1, 1]
    assert (done.stages["first"].folder.output / "type_D_easy" / "tasks.jsonl").exists()


def test_a_changed_input_file_is_another_input(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("one")
    write(tmp_path, {"first": generate(1) | {"inputs": ["note.txt"]}})
    before = opened(tmp_path).stages["first"].folder.inputs
    (tmp_path / "note.txt").write_text("two")
    assert opened(tmp_path).stages["first"].folder.inputs != before
    (tmp_path / "note.txt").unlink()
    with pytest.raises(NotFound, match=r"note\.txt"):
        opened(tmp_path)


def test_a_failed_command_tells_its_last_words_and_is_tried_again(tmp_path: Path) -> None:
    bad = {"kind": "command", "words": ["or-debug", "generate", "--types", "Z"]}
    write(tmp_path, {"first": generate(1), "bad": bad})
    for _ in range(2):
        with pytest.raises(StageFailed, match="bad ended with exit code 2: ") as failed:
            run(tmp_path)
    assert "log.txt" in (failed.value.hint or "")
    assert num_attempts(opened(tmp_path)) == [1, 2]


def test_a_stage_without_what_it_needs_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"first": generate(1), "needs": generate(1) | {"after": ["first"]}})
    with pytest.raises(Conflict, match="needs first, which is not done"):
        run(tmp_path, "needs")


def test_files_of_a_done_stage_that_somebody_changed_are_not_read_by_a_later_one(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"first": generate(1), "needs": generate(1, seed=8) | {"after": ["first"]}})
    folder = run(tmp_path, "first").stages["first"].folder
    (changed,) = folder.output.rglob("tasks.jsonl")
    changed.write_text(changed.read_text() + "\n")
    with pytest.raises(Conflict, match=r"files of first .*tasks\.jsonl differs"):
        run(tmp_path, "needs")
    assert num_attempts(opened(tmp_path)) == [1, 0]
    shutil.rmtree(folder.path)
    assert num_attempts(run(tmp_path)) == [1, 1]


def test_the_budget_stops_before_it_is_used_up(tmp_path: Path) -> None:
    dear = generate(1, seed=8) | {"expected_minutes": {"expected": 60, "maximum": 90}}
    stages = {"first": generate(1), "dear": dear, "last": generate(1, seed=9)}
    write(tmp_path, stages, price_per_hour=10.0, budget={"money": 5.0})
    with pytest.raises(BudgetExceeded, match=r"dear is expected to cost 10\.00"):
        run(tmp_path)
    stages["dear"] = dear | {"skip_when_short": True}
    stages["needs"] = generate(1, seed=5) | {"after": ["dear"]}
    write(tmp_path, stages, price_per_hour=10.0, budget={"money": 5.0})
    done = run(tmp_path)
    states = [one.record.state for one in done.stages.values() if one.record is not None]
    assert states == ["done", "skipped", "done", "skipped"]
    assert 0 < done.spent() < 5
    assert "skipped: dear was left out" in (write_report(done).parent / "report.md").read_text()


def test_a_command_past_the_budget_is_ended(tmp_path: Path) -> None:
    write(tmp_path, {"long": generate(5000)}, price_per_hour=3600.0, budget={"money": 3.0})
    began = time.monotonic()
    with pytest.raises(BudgetExceeded, match="long used up the budget"):
        run(tmp_path)
    assert time.monotonic() - began < 60


@pytest.mark.nightly
def test_twenty_kills_leave_each_stage_done_once(tmp_path: Path) -> None:
    stages = {f"s{n}": generate(3, seed=n) for n in range(3)}
    file = write(tmp_path, stages)
    folder = tmp_path / "pipeline"
    words = [sys.executable, "-m", "assay_shared.cli", "pipeline", "run", str(file)]
    for number in range(20):
        process = subprocess.Popen(
            [*words, "--folder", str(folder)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"ASSAY_RUNS": str(tmp_path)},
        )
        try:
            process.wait(0.3 + 0.17 * number)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait(LIMIT_S)
    done = run(tmp_path)
    finished = [
        line
        for line in (folder / "events.jsonl").read_text().splitlines()
        if "stage_finished" in line
    ]
    assert len(finished) == len(stages)
    assert sum(num_attempts(done)) > len(stages)  # some command was killed
    for one in done.stages.values():
        spans = [(attempt.started, attempt.ended or 0.0) for attempt in one.folder.attempts()]
        assert all(ended <= started for (_, ended), (started, _) in pairwise(spans))
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    write(undisturbed, stages)
    other = run(undisturbed)
    for name in stages:
        ours, theirs = (
            sorted(
                (file.name, file.read_bytes())
                for file in one.stages[name].folder.output.rglob("tasks.jsonl")
            )
            for one in (done, other)
        )
        assert ours == theirs != []


def test_a_gate_stops_until_it_is_overruled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evaluation is of stored metrics: its command is replaced by one that writes nothing."""
    from assay_trainer.pipelines import runner

    gate = {"at_least": 0.9, "action": "see the answers"}
    evaluate = {"kind": "evaluate", "policy": "x", "sets": {"a": "a"}, "gates": [gate]}
    write(tmp_path, {"e": evaluate, "last": generate(1) | {"after": ["e"]}})
    output = opened(tmp_path).stages["e"].folder.output
    (output / "a").mkdir(parents=True)
    overall = {"num_scored_tasks": 50, "accepted_at_1": {"value": 0.2, "low": 0.1, "high": 0.3}}
    (output / "a" / "metrics.json").write_text(json.dumps({"overall": overall}))
    monkeypatch.setattr(runner, "prepare", lambda stage, own, places: ["tasks", "--num", "1"])
    for _ in range(2):
        with pytest.raises(
            GateStopped, match=r"at least 0\.9: 0\.2 \(0\.1 to 0\.3\): FAIL"
        ) as stop:
            run(tmp_path)
        assert "see the answers" in (stop.value.hint or "")
    with pytest.raises(NotFound, match="no gate"):
        opened(tmp_path).overrule("last", "why not")
    opened(tmp_path).overrule("e", "the set is known to be hard")
    done = run(tmp_path)
    assert num_attempts(done) == [1, 1]
    assert "the set is known to be hard" in (write_report(done).parent / "report.md").read_text()


def test_stages_are_selected_by_their_names() -> None:
    names = ["a", "b", "c", "d"]
    assert selected(names, (None, None, ())) == names
    assert selected(names, ("b", "c", ())) == ["b", "c"]
    assert selected(names, (None, None, ("d", "a"))) == ["a", "d"]
