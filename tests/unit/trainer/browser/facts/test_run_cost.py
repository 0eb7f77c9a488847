"""Costs by a run's events."""

import json
import time
from pathlib import Path

from assay_trainer.browser.facts.run_cost import RecordedCost, RecordedCosts
from tests.unit.trainer.evaluation.test_report import make_step


def line(at: float, kind: str, **data: object) -> str:
    return json.dumps({"time": at, "kind": kind, "data": data}) + "\n"


def test_costs_are_sums_of_what_events_tell(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    step = make_step(1, num_tokens=500, judge_tokens=70, judge_money=0.25)
    values = step.model_dump(mode="json")
    file.write_text(
        line(0, "stage_started", stage="grpo", num_steps=2, num_gpus=2)
        + line(1800, "step", **values)
        + line(9000, "stage_started", stage="grpo", num_steps=2, num_gpus=2)
        + line(9000, "resumed", stage="grpo", step=0)
        + line(10800, "step", **values)
        + "{broken\n"
        + line(10800, "stage_finished", stage="grpo", took_s=1800)
    )
    costs = RecordedCosts()
    found = costs.read(file, time.monotonic() + 60)
    assert found == RecordedCost(gpu_hours=2.0, tokens=1000, judge_tokens=140, money=0.5)
    assert found.told == "0.50 money, 2.00 GPU hours, 1,000 tokens, 140 tokens of judges"
    with file.open("a") as more:
        more.write(line(20000, "step", **values))
    assert costs.read(file, time.monotonic() + 60).tokens == 1500
    late = RecordedCosts().read(file, time.monotonic() - 1)
    assert (late.is_whole, late.told) == (False, "")


def test_without_a_record_nothing_is_said(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    deadline = time.monotonic() + 60
    assert RecordedCosts().read(file, deadline) == RecordedCost()
    old = make_step(1).model_dump(mode="json", exclude={"num_tokens", "judge_tokens"})
    started = line(0, "stage_started", stage="grpo", num_steps=2)
    file.write_text(started + line(9, "step", **old | {"judge_money": "NaN"}))
    found = RecordedCosts().read(file, deadline)
    assert (found, found.told) == (RecordedCost(), "")
