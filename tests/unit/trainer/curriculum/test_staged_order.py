"""Stages begin and end where they should, and a resume samples the same tasks."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import ConfigError
from assay_shared.statistics.interval import Interval
from assay_shared.types import GroupRequest
from assay_trainer.curriculum.selection import stage_tasks
from assay_trainer.curriculum.staged_order import check_steps
from assay_trainer.curriculum.state import BatcherState
from assay_trainer.curriculum_config import CurriculumConfig
from assay_trainer.learner import checkpoint
from tests.unit.trainer.curriculum.stages import TASKS, PlayedRun, curriculum, levels_of, stage

FOUR = (
    stage("easy", "easy", epochs=2),
    stage("easier", "easy", "medium", epochs=2),
    stage("harder", "medium", "hard", epochs=2),
    stage("hard", "hard", epochs=2),
)


@pytest.mark.parametrize("max_staleness", [0, 1, 3])
def test_with_epochs_each_task_of_a_stage_is_sampled_once_in_each(max_staleness: int) -> None:
    run = PlayedRun(curriculum(*FOUR), max_staleness=max_staleness)
    run.play(200)
    drawn = [task for _, task in sorted(run.draws.items())]
    assert len(drawn) == 2 * (6 + 12 + 12 + 6)
    place = 0
    for size, levels in ((6, {"easy"}), (12, {"easy", "medium"}), (12, {"medium", "hard"})):
        for _ in range(2):
            epoch = drawn[place : place + size]
            assert set(Counter(epoch).values()) == {1}
            assert levels_of(epoch) == levels
            place += size
    assert [end.ended for _, end in run.ends] == ["easy", "easier", "harder", "hard"]
    assert run.ends[-1][1].to is None
    assert run.feed.is_over
    assert sum(map(len, run.learnt)) == len(drawn), "every group is learnt"


def test_the_step_of_a_stage_is_known_and_the_stages_come_in_order() -> None:
    run = PlayedRun(curriculum(*FOUR))
    run.play(200)
    assert list(dict.fromkeys(run.stages)) == ["easy", "easier", "harder", "hard"]
    for name, learnt in zip(run.stages, run.learnt, strict=True):
        allowed = {"easy": {"easy"}, "easier": {"easy", "medium"}}.get(
            str(name), {"medium", "hard"}
        )
        assert levels_of(learnt) <= allowed


@pytest.mark.parametrize("max_staleness", [0, 1, 2])
def test_a_stage_of_steps_has_that_many_steps_of_its_own_tasks(max_staleness: int) -> None:
    config = curriculum(stage("first", "easy", steps=5), stage("second", "hard", steps=4))
    run = PlayedRun(config, max_staleness=max_staleness)
    run.play(100)
    assert run.stages == ["first"] * 5 + ["second"] * 4
    levels = [levels_of(learnt) for learnt in run.learnt]
    assert levels == [{"easy"}] * 5 + [{"hard"}] * 4


def test_a_stage_ends_by_the_lower_bound_and_not_by_the_estimate() -> None:
    until = {"pass_rate": 0.6, "min_steps": 3, "max_steps": 20, "every": 2}
    config = curriculum(stage("first", "easy", until=until), stage("second", "hard", steps=3))
    asked = []

    def measured(step: int) -> Interval:
        asked.append(step)
        return Interval(0.9, 0.3 + 0.05 * step, 1.0)

    run = PlayedRun(config, pass_rate=measured)
    run.play(40)
    assert asked == [4, 6], "never before min_steps, and every second step"
    assert run.ends[0][0] == 6
    assert "at least 0.600" in run.ends[0][1].reason


def test_a_stage_that_never_reaches_its_pass_rate_ends_after_max_steps() -> None:
    until = {"pass_rate": 0.9, "min_steps": 1, "max_steps": 4, "every": 1}
    config = curriculum(stage("first", "easy", until=until), stage("second", "hard", steps=2))
    run = PlayedRun(config, pass_rate=lambda _: Interval(0.95, 0.5, 1.0))
    run.play(40)
    assert [step for step, _ in run.ends] == [4, 6]
    assert run.ends[0][1].reason == "its most steps, 4"


def test_parts_of_a_mixed_stage_have_their_shares() -> None:
    mix = [
        {"where": {"difficulty": "easy"}, "weight": 3},
        {"where": {"difficulty": "hard"}, "weight": 1},
    ]
    run = PlayedRun(curriculum({"name": "mixed", "mix": mix, "steps": 60}))
    run.play(60)
    counts = Counter(level for learnt in run.learnt for one in learnt for level in levels_of([one]))
    assert set(counts) == {"easy", "hard"}
    assert counts["easy"] / counts.total() == pytest.approx(0.75, abs=0.03)


def solved(request: GroupRequest) -> tuple[float, ...]:
    """Easy tasks are always solved, medium ones half of the time."""
    return (1.0, 1.0) if request.task.id.startswith("easy") else (1.0, 0.0)


def test_the_pool_samples_what_is_always_solved_less_often() -> None:
    wide = stage("all", "easy", "medium", steps=80)
    pool = {"rare_share": 0.25, "least_samples": 4}
    shares = {}
    for name, others in (("without", {}), ("with", {"pool": pool})):
        run = PlayedRun(curriculum(wide, **others), rewards=solved)
        run.play(80)
        ids = [task for draw, task in sorted(run.draws.items()) if draw >= 36]
        shares[name] = sum(one.startswith("easy") for one in ids) / len(ids)
    assert shares["without"] == pytest.approx(0.5, abs=0.03)
    assert shares["with"] == pytest.approx(0.2, abs=0.06), "a quarter against a whole"


def with_signal(request: GroupRequest) -> tuple[float, ...]:
    return (1.0, 0.0)


UNTIL = {"pass_rate": 0.5, "min_steps": 2, "max_steps": 9, "every": 2}
RESUMED: dict[str, tuple[CurriculumConfig, bool]] = {
    "epochs": (curriculum(*FOUR), False),
    "steps": (curriculum(stage("a", "easy", steps=7), stage("b", "hard", steps=9)), False),
    "pool": (
        curriculum(
            stage("a", "easy", "medium", steps=11),
            stage("b", "medium", "hard", steps=9),
            pool={"least_samples": 2, "low": 0.5},
        ),
        False,
    ),
    "pass rate": (
        curriculum(
            stage(
                "a", "easy", until={"pass_rate": 0.5, "min_steps": 2, "max_steps": 9, "every": 2}
            ),
            stage("b", "medium", "hard", steps=9),
        ),
        True,
    ),
}


@pytest.mark.parametrize("stopped_at", [1, 3, 6, 9, 12])
@pytest.mark.parametrize("max_staleness", [0, 1])
@pytest.mark.parametrize("kind", RESUMED)
def test_a_resume_in_mid_stage_samples_the_same_tasks(
    kind: str, max_staleness: int, stopped_at: int, tmp_path: Path
) -> None:
    """With staleness, groups without signal change how many groups are asked for ahead of time."""
    config, is_measured = RESUMED[kind]
    settings: dict[str, Any] = {
        "rewards": with_signal if max_staleness else solved,
        "pass_rate": (lambda step: Interval(0.9, 0.1 * step, 1.0)) if is_measured else None,
        "max_staleness": max_staleness,
    }
    whole = PlayedRun(config, **settings)
    whole.play(40)

    first = PlayedRun(config, **settings)
    first.play(stopped_at)
    checkpoint.complete(made_folder(tmp_path, first.step), first.step, first.feed.state())
    found = checkpoint.newest(tmp_path)
    assert found is not None
    second = PlayedRun(config, state=found[1], step=first.step, **settings)
    second.play(40)

    assert first.draws | second.draws == whole.draws
    assert first.stages + second.stages == whole.stages
    assert first.ends + second.ends == whole.ends
    assert first.learnt + second.learnt == whole.learnt


def made_folder(checkpoints: Path, step: int) -> Path:
    folder = checkpoint.folder_of(checkpoints, step)
    folder.mkdir(parents=True)
    (folder / "weights").write_text("w")
    return checkpoints


def test_a_step_that_is_in_the_state_already_changes_nothing() -> None:
    run = PlayedRun(curriculum(*FOUR))
    run.play(3)
    before = run.feed.state()
    assert run.order.finish_step(run.feed.finish_step(3), None) is None
    assert run.feed.state() == before


def test_the_state_is_small_and_goes_through_json() -> None:
    run = PlayedRun(curriculum(*FOUR))
    run.play(30)
    state = run.feed.state()
    assert state.order is not None
    assert len(state.order.passes) <= 3
    again = type(state.order).model_validate_json(state.order.model_dump_json())
    assert again == state.order
    assert json.loads(state.order.model_dump_json())["learnt"] == 3
    assert BatcherState(state.next_draw, state.unfinished, again) == state


def test_fewer_steps_than_the_stages_have_are_refused() -> None:
    config = curriculum(*FOUR)
    stages = stage_tasks(config, TASKS, "training")
    check_steps(config, stages, 36, 2)
    with pytest.raises(ConfigError, match=r"grpo\.steps: .* up to 36 steps, .* after 35"):
        check_steps(config, stages, 35, 2)
