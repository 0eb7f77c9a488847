"""Meters: which settings act, and that every view of a run has all meters."""

from pathlib import Path

import pytest

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.browser.facts.run_events import RunEvents
from assay_trainer.browser.pages.curves import meters
from assay_trainer.events import StepEvent
from assay_trainer.learner.gradient_facts import GradientFacts
from assay_trainer.meters import METERS, is_active, stages_of, summary
from tests.unit.trainer.evaluation.test_report import make_step

BY_FIELD = {meter.field: meter for meter in METERS}


def test_every_meter_is_a_field_of_a_step() -> None:
    assert set(BY_FIELD) <= set(StepEvent.model_fields)
    computed = {"kl", "clipped_low", "clipped_high", "kl_gradient_share", "masked_share"}
    assert computed <= set(BY_FIELD) & set(GradientFacts.__dataclass_fields__)


def test_the_run_page_draws_the_meters_that_move_and_names_the_others(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    idle: dict[str, object] = {meter.field: meter.idle for meter in METERS}
    for step in (1, 2):
        changes = idle | {"clipped_high": 0.25 * step}
        run.record("step", **make_step(step, **changes).model_dump(mode="json"))
    seen = RunEvents(run.events)
    seen.update()
    moving, at_rest = meters(seen)
    assert [(one.title, one.last) for one in moving] == [("clipped high", "0.5")]
    assert at_rest == [one.title for one in METERS if one.field != "clipped_high"]


def test_a_summary_tells_in_how_many_steps_a_setting_acted() -> None:
    steps = [make_step(at, clipped_high=share) for at, share in enumerate([0.0, 0.5, 0.25], 1)]
    found = summary(BY_FIELD["clipped_high"], steps)
    assert (found.mean, found.least, found.most, found.last) == (0.25, 0.0, 0.5, 0.25)
    assert (found.num_steps, found.num_active) == (3, 2)
    none = summary(BY_FIELD["kl_gradient_share"], [make_step(1, kl_gradient_share=None)])
    assert (none.mean, none.last, none.num_steps, none.num_active) == (None, None, 0, 0)


@pytest.mark.parametrize(
    ("field", "value", "acts"),
    [
        ("clipped_low", 0.0, False),
        ("clipped_low", 0.001, True),
        ("importance_weight_mean", 1.0, False),
        ("importance_weight_mean", 0.9, True),
        ("kl_gradient_share", None, False),
    ],
)
def test_a_setting_acts_where_its_meter_is_not_idle(
    field: str, value: float | None, *, acts: bool
) -> None:
    assert is_active(BY_FIELD[field], value) is acts


def test_values_are_shown_with_their_unit() -> None:
    shown = BY_FIELD["clipped_low"].shown
    assert [shown(value) for value in (None, 0.0, 0.123)] == ["-", "0.0%", "12.3%"]
    shown = BY_FIELD["kl"].shown
    assert [shown(value) for value in (0.0, 3.0, 0.00123, 1.234)] == ["0", "3", "0.0012", "1.23"]


def test_stages_of_a_curriculum_have_their_steps() -> None:
    names = [None, "easy", "easy", "hard", "easy"]
    steps = [make_step(at, curriculum_stage=name) for at, name in enumerate(names, 1)]
    assert stages_of(steps) == [("easy", 2, 3), ("hard", 4, 4), ("easy", 5, 5)]
