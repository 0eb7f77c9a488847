"""The funnel and the times of a run come from its living events."""

from pathlib import Path

import pytest

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.browser.facts import run_events
from assay_trainer.browser.facts.funnel import funnel
from assay_trainer.browser.facts.run_events import RunEvents
from assay_trainer.browser.facts.waiting import sentence, step_parts
from tests.unit.trainer.evaluation.test_report import make_dpo_step, make_sft_step, make_step

STEP = {
    "num_played": 10,
    "num_generated": 76,
    "num_trained": 30,
    "num_groups": 4,
    "num_without_signal": 3,
    "num_set_aside": 0,
    "outcomes": {"accepted": 20, "wrong_answer": 40},
    "failures": {"sandbox": 4, "judge": 1},
    "refused": {"too_old": 2},
}


def test_the_funnel_says_what_became_of_each_sample() -> None:
    steps = [make_step(1, **STEP), make_step(2, **STEP)]
    found = {one.name: (one.groups, one.samples) for one in funnel(steps, 8)}
    assert found == {
        "asked": (20, 160),
        "generated": (None, 152),
        "scored": (None, 120),
        "judge failed": (None, 2),
        "sandbox failed": (None, 8),
        "too old": (4, 32),
        "without signal": (6, 48),
        "trained on": (8, 60),
    }
    assert funnel(steps, 8)[-1].share(160) == 60 / 160


def test_numbers_that_older_events_lack_are_left_open() -> None:
    old = make_step(1, **STEP | {"num_generated": None, "num_trained": None})
    found = {one.name: one.samples for one in funnel([old, make_step(2, **STEP)], None)}
    assert (found["asked"], found["generated"], found["trained on"]) == (None, None, None)
    assert funnel([], 8) == []


def test_events_are_read_as_they_come_without_replaced_steps(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    seen = RunEvents(run.events)
    seen.update()
    assert seen.steps == {}, "no event yet"
    for step in (1, 2, 3):
        run.record("step", **make_step(step).model_dump(mode="json"))
        run.record("sft_step", **make_sft_step(step).model_dump(mode="json"))
        run.record("dpo_step", **make_dpo_step(step).model_dump(mode="json"))
    run.record("run_failed", message="killed")
    seen.update()
    assert (len(seen.steps), seen.end and seen.end.message) == (3, "killed")
    run.record("resumed", stage="grpo", step=1)
    run.record("step", **make_step(2, reward=0.75).model_dump(mode="json"))
    with run.events.open("ab") as file:
        file.write(b'{"kind":"broken\n{"time":1,"kind":"step","data":{}}\n{"half')
    seen.update()
    assert sorted(seen.steps) == [1, 2]
    assert (seen.steps[2].reward, seen.num_resumes, seen.end) == (0.75, 1, None)
    assert (sorted(seen.sft), sorted(seen.dpo)) == ([1, 2, 3], [1, 2, 3])
    run.events.unlink()
    run.record("step", **make_step(9).model_dump(mode="json"))
    seen.update()
    assert sorted(seen.steps) == [9], "another file is read from its beginning"


def test_of_a_very_long_run_the_last_steps_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_events, "MOST_STEPS", 3)
    run = RunFolder(tmp_path)
    for step in range(1, 6):
        run.record("step", **make_step(step).model_dump(mode="json"))
    seen = RunEvents(run.events)
    seen.update()
    assert (sorted(seen.steps), seen.num_dropped_steps) == ([3, 4, 5], 2)


def test_a_sentence_says_who_waits_for_whom() -> None:
    times = {"step_s": 10.0, "rollouts_s": 6.0, "update_s": 3.0, "publish_s": 0.5}
    parts = step_parts([make_step(1, **times, checkpoint_wait_s=0.0)], [(1, 4, 0.5, 2.0)])
    assert parts[0].rest_s == 0.5
    told = sentence(parts)
    assert "waits for rollouts 60% of its time, updates 30% and publishes 5%" in told
    assert told.endswith("2.00 s in reward: reward is the longer part.")
    assert sentence([]) == ""
