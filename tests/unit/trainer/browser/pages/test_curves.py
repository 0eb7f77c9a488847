"""Curves of a run: a verifier's own numbers have theirs."""

from pathlib import Path

from assay_trainer.browser.facts.run_events import RunEvents
from assay_trainer.browser.pages.curves import curves
from tests.unit.trainer.evaluation.test_report import make_step


def test_numbers_that_verifiers_note_have_curves(tmp_path: Path) -> None:
    seen = RunEvents(tmp_path / "events.jsonl")
    for number, rate in enumerate((0.25, 0.5, float("nan")), start=1):
        seen.steps[number] = make_step(number, measures={"workflow_valid": rate})
    (curve,) = (one for one in curves(seen) if one.title == "workflow valid")
    assert (curve.first, curve.last, curve.first_step, curve.last_step) == ("0.25", "0.5", 1, 2)
