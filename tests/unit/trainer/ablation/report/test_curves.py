"""Curves and meters from the events of runs."""

from pathlib import Path

from assay_shared.runs.run_folder import RunFolder
from assay_shared.statistics.interval import Interval
from assay_trainer.ablation.decomposition.batches import step_events
from assay_trainer.ablation.report.curves import TRAINING, curve_points, meters_of, tokens_of
from assay_trainer.events import TierEvaluated
from tests.unit.trainer.ablation.decomposition.conftest import step_event


def measure(run: RunFolder, value: float, tier: str, name: str, step: int | None) -> None:
    result = Interval(value, value, value)
    told = TierEvaluated(
        tier=tier, set=name, stage="grpo", step=step, result=result, num_failed=0, folder="f"
    )
    run.record("tier_evaluated", **told.model_dump(mode="json"))


def test_a_curve_begins_at_the_start_and_has_steps_and_tokens(tmp_path: Path) -> None:
    start, run = RunFolder.create(tmp_path / "start"), RunFolder.create(tmp_path / "run")
    measure(start, 0.1, "ablation", "held_out", None)
    for step in (1, 2):
        run.record("step", **step_event(step, num_played=3, length_mean=5.0, pass_rate=0.2 * step))
    measure(run, 0.3, "ablation_curve", "curve_held_out", 1)
    measure(run, 0.5, "ablation", "held_out", None)
    measure(run, 0.9, "another", "held_out", 1)
    found = curve_points("a", 1, run, start, 4)
    held_out = [one for one in found if one.name == "right answers, held out"]
    assert [(one.step, one.drawn_tokens, one.value) for one in held_out] == [
        (0, 0.0, 0.1),
        (1, 60.0, 0.3),
        (2, 120.0, 0.5),
    ]
    assert [one.value for one in found if one.name == TRAINING] == [0.2, 0.4]


def test_steps_that_a_resume_replaced_are_in_no_number(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run")
    for step, kl in ((1, 0.1), (2, 9.0)):
        run.record("step", **step_event(step, kl=kl))
    run.record("resumed", stage="grpo", step=1, num_superseded=3)
    run.record("step", **step_event(2, kl=0.3))
    steps = step_events(run)
    assert meters_of(steps)["kl"] == 0.2
    assert len(tokens_of(steps, 4)) == 2
