"""The state of stages that are not done: skipped, failed, begun or to do."""

from pathlib import Path
from typing import Any

import pytest

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.pipelines.operation import PipelineOrder, run_pipeline
from assay_trainer.pipelines.reporting.state import amount, as_values, stage_rows
from assay_trainer.pipelines.reporting.tables import decided_levels
from assay_trainer.pipelines.runner import Pipeline, PipelineRunner, StageFailed
from assay_trainer.pipelines.stage_folder import CommandAttempt
from assay_trainer.stop import Stop
from tests.support.pipelines import open_pipeline

TASKS = {"kind": "command", "words": ["tasks", "--num", "1"]}
DEAR = TASKS | {
    "skip_when_short": True,
    "expected_minutes": {"expected": 60, "maximum": 90},
}


def states(pipeline: Pipeline) -> list[str]:
    shown = [row[2] for row in stage_rows(pipeline)[:-1]]
    stored: Any = as_values(pipeline)["stages"]
    assert [one["state"] for one in stored] == shown
    return shown


def opened(place: Path, money: float = 5.0) -> Pipeline:
    stages = {"first": TASKS, "dear": DEAR, "needs": TASKS | {"after": ["dear"]}}
    return open_pipeline(
        place,
        stages,
        price_per_hour=10.0,
        budget={"money": money},
        levels={"minimum": [{"done": "needs"}]},
    )


def test_seconds_are_not_zero_hours() -> None:
    assert [amount(one) for one in (0.0, 0.00044, 0.081, 1.5)] == ["0", "0.00044", "0.081", "1.50"]


def test_what_was_skipped_is_told_by_the_run_and_afterwards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened(tmp_path)
    order = PipelineOrder(tmp_path / "pipeline.yaml", folder=tmp_path / "pipeline")
    run_pipeline(order, (None, None, ()))
    printed = capsys.readouterr().out
    assert "skipped: dear: the budget does not allow its expected cost" in printed
    assert "skipped: needs: dear was left out" in printed

    again = opened(tmp_path)
    short = "skipped: the budget does not allow its expected cost"
    assert states(again) == ["done", short, "skipped: dear was left out"]
    assert [one.verdict for one in decided_levels(again)] == ["FAIL"]
    richer = opened(tmp_path, money=50.0)
    assert states(richer) == ["done", "to do", "to do"]


def test_a_command_with_an_exit_code_stands_as_failed(tmp_path: Path) -> None:
    bad = {"kind": "command", "words": ["or-debug", "generate", "--types", "Z"]}
    found = open_pipeline(tmp_path, {"bad": bad, "killed": TASKS})
    runner = PipelineRunner(found, Stop(), lambda name, line: None)
    with pytest.raises(StageFailed):
        runner.run(["bad"])
    killed = found.stages["killed"].folder
    killed.path.mkdir(parents=True)
    killed.add_attempt(CommandAttempt(started=1.0))
    RunFolder(found.folder).record("stage_started", stage="killed", words=[])
    assert states(open_pipeline(tmp_path, {"bad": bad, "killed": TASKS})) == [
        "failed: exit code 2",
        "begun",
    ]
