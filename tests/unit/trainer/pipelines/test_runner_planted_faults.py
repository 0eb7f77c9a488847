"""Faults that are planted in a stage stop the pipeline there, with the reason."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import AssayError
from assay_trainer.pipelines import runner
from assay_trainer.pipelines.runner import GateStopped, PipelineRunner, StageFailed
from assay_trainer.pipelines.stage_folder import StageRecord
from assay_trainer.stop import Stop
from tests.support.pipelines import open_pipeline, write_comparison_of
from tests.support.policies import make_policy_folder

pytestmark = pytest.mark.slow
NEXT = {"kind": "command", "words": ["tasks", "--num", "1", "--output", "{folder}/a.jsonl"]}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], None]], None]:
    """Replace a stage's command by a quick one, after a function has written its output."""

    def replace(write: Callable[[Path], None]) -> None:
        def prepare(stage: Any, own: Any, places: Any) -> list[str]:
            own.output.mkdir(parents=True)
            write(own.output)
            return ["tasks", "--num", "1"]

        monkeypatch.setattr(runner, "prepare", prepare)

    return replace


def stopped(tmp_path: Path, stage: dict[str, Any], kind: type[AssayError]) -> AssayError:
    """Run the stage and one after it; return the error that stops the pipeline at the first."""
    (tmp_path / "run.yaml").write_text("name: a\n")
    found = open_pipeline(tmp_path, {"planted": stage, "next": NEXT | {"after": ["planted"]}})
    with pytest.raises(kind) as error:
        PipelineRunner(found, Stop(), lambda name, line: None).run(["planted", "next"])
    assert found.stages["next"].folder.attempts() == []
    return error.value


def metrics(**overall: Any) -> Callable[[Path], None]:
    """Write what a command that makes rows says of them."""

    def write(output: Path) -> None:
        (output / "preferences.jsonl").write_text('{"prompt": "a"}\n' * 40)
        (output / "metrics.json").write_text(json.dumps({"overall": {"num_rows": 40} | overall}))

    return write


def share(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.05, "high": value + 0.05}


PAIRS = {"kind": "command", "words": ["data", "pairs"]}


def test_a_leaked_held_out_row(tmp_path: Path) -> None:
    """By the command itself: one held-out task stands among the training tasks."""
    rows = subprocess.check_output(
        [sys.executable, "-m", "assay_shared.cli", "tasks", "--num", "20"], text=True
    ).splitlines()
    (tmp_path / "train.jsonl").write_text("\n".join(rows[:11]) + "\n")
    (tmp_path / "held_out.jsonl").write_text("\n".join(rows[10:]) + "\n")
    words = ["leaks", "--train", "train.jsonl", "--held-out", "held_out.jsonl"]
    leaks = {"kind": "command", "words": words, "inputs": ["train.jsonl", "held_out.jsonl"]}
    error = stopped(tmp_path, leaks, StageFailed)
    assert "planted ended with exit code 1" in error.message


def test_a_judge_that_prefers_the_first_answer(tmp_path: Path, written: Any) -> None:
    """The pairs were judged in both orders; the share of the first place would be a half."""
    written(metrics(first_choice=share(0.9)))
    gate = {"metric": "first_choice", "at_most": 0.6, "action": "another judge"}
    error = stopped(tmp_path, PAIRS | {"gates": [gate]}, GateStopped)
    assert "first_choice is to be at most 0.6: 0.9 (0.85 to 0.95): FAIL" in error.message
    assert "another judge" in (error.hint or "")


def test_pairs_with_swapped_labels(tmp_path: Path, written: Any) -> None:
    """A verifier that knows the answers finds the rejected ones right."""
    written(metrics(label_agreement=share(0.1)))
    gate = {"metric": "label_agreement", "at_least": 0.5}
    assert "FAIL" in stopped(tmp_path, PAIRS | {"gates": [gate]}, GateStopped).message


def test_a_preference_stage_that_learnt_swapped_pairs(tmp_path: Path, written: Any) -> None:
    def write(output: Path) -> None:
        make_policy_folder(output / "models" / "initial")
        make_policy_folder(output / "models" / "dpo", seed=1)
        losses = {"num_steps": 9, "first_loss": 0.69, "last_loss": 0.4, "max_grad_norm": 1.0}
        after = {"num_pairs": 90, "margin": -0.4, "margin_interval": None, "win_rate": share(0.2)}
        held_out = {"after": after | {"logprob_win_rate": share(0.2)}}
        report = {"dpo": losses | {"held_out": held_out}}
        (output / "report.json").write_text(json.dumps(report))

    written(write)
    gate = {"metric": "dpo.after.win_rate", "at_least": 0.5}
    stage = {"kind": "train", "run": "run.yaml", "gates": [gate]}
    assert "0.2 (0.15 to 0.25): FAIL" in stopped(tmp_path, stage, GateStopped).message


def test_a_stage_that_trained_nothing(tmp_path: Path, written: Any) -> None:
    def write(output: Path) -> None:
        make_policy_folder(output / "models" / "initial")
        shutil.copytree(output / "models" / "initial", output / "models" / "grpo")

    written(write)
    error = stopped(tmp_path, {"kind": "train", "run": "run.yaml"}, GateStopped)
    assert "weights moved by grpo is to be above 0: 0: FAIL" in error.message


@pytest.mark.parametrize("kind", ["pairs", "rejection"])
def test_rows_that_are_none(tmp_path: Path, written: Any, kind: str) -> None:
    def write(output: Path) -> None:
        (output / "metrics.json").write_text('{"overall": {"num_scored_tasks": 9}}')
        (output / "manifest.json").write_text('{"count": 0}')

    written(write)
    found = open_pipeline(
        tmp_path,
        {
            "e": {"kind": "evaluate", "policy": "x", "sets": {"a": "a"}, "allow_no_change": True},
            "planted": {"kind": kind, "evaluations": ["e"]},
        },
    )
    with pytest.raises(GateStopped, match="planted: rows made is to be above 0: 0: FAIL"):
        PipelineRunner(found, Stop(), lambda name, line: None).run(["e", "planted"])


def test_a_policy_that_got_worse(tmp_path: Path, written: Any) -> None:
    arms = {"before": 80, "after": 30}
    written(lambda output: write_comparison_of(output, tmp_path, arms, ("1", "2")))
    gate = {"metric": "held.accepted_at_1.difference", "at_least": 0.0}
    sides = {
        "e": {"kind": "command", "words": ["tasks"]},
        "f": {"kind": "command", "words": ["tasks"]},
    }
    compare = {"kind": "compare", "evaluations": ["e", "f"], "gates": [gate]}
    found = open_pipeline(tmp_path, sides | {"planted": compare})
    for name in sides:
        found.stages[name].record = StageRecord(name=name, kind="command", inputs="", finished=1)
    with pytest.raises(GateStopped, match=r"difference is to be at least 0: -0\.5"):
        PipelineRunner(found, Stop(), lambda name, line: None).run(["planted"])


def test_a_chat_template_where_none_may_be(tmp_path: Path, written: Any) -> None:
    def write(output: Path) -> None:
        channel = {"verdict": "NOT_CLEAN", "num_prompts": 9, "num_unclean": 9}
        content = {"channel": channel, "behaviour": []}
        (output / "verification.json").write_text(json.dumps(content))

    written(write)
    stage = {"kind": "verify", "policy": "x", "gates": [{"metric": "clean", "at_least": 1}]}
    assert "clean is to be at least 1: 0: FAIL" in stopped(tmp_path, stage, GateStopped).message
