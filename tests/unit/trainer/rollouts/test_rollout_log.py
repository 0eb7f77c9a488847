"""rollouts.jsonl after a resume: the replaced branch is marked, and left out of all counts."""

from pathlib import Path

from assay_shared.runs.run_folder import Event, RunFolder, append_line
from assay_trainer.events import living
from assay_trainer.rescore.stored_answers import read_stored
from assay_trainer.rollouts.rollout_log import (
    DISCARDED,
    DISCARDED_OLDER,
    OLDER,
    DiscardedGroup,
    append_discarded,
    append_rollout,
    mark_superseded,
    read_rollouts,
)
from tests.support.fakes import make_scored_group
from tests.unit.trainer.evaluation.test_report import make_step


def add(path: Path, step: int, name: str, max_bytes: int = 10**9) -> None:
    append_rollout(path, make_scored_group(f"{name}{step}", 1.0, 0.0), step, max_bytes)


def test_steps_after_the_checkpoint_are_marked_where_they_stand(tmp_path: Path) -> None:
    path = RunFolder(tmp_path).rollouts
    for step in (1, 2, 3):
        add(path, step, "first-")
    size = path.stat().st_size
    assert mark_superseded(path, 1) == 2
    assert mark_superseded(path, 1) == 0, "a second time there is nothing new"
    assert path.stat().st_size == size
    add(path, 2, "second-")
    seen = [(one.group.key, one.step, one.superseded) for one in read_rollouts(path)]
    assert seen == [
        ("first-1", 1, False),
        ("first-2", 2, True),
        ("first-3", 3, True),
        ("second-2", 2, False),
    ]
    stored = read_stored(RunFolder(tmp_path))
    assert [group.key for group in stored.groups] == ["first-1", "second-2"]
    assert stored.left_out == {"superseded": 4}


def test_what_was_set_aside_is_marked_too_and_half_a_line_is_cut_off(tmp_path: Path) -> None:
    path = RunFolder(tmp_path).rollouts
    for step in range(1, 9):
        add(path, step, "a-", max_bytes=8000)
    assert (tmp_path / OLDER).exists()
    with path.open("a") as file:
        file.write('{"step":9,"superseded":false,"gro')  # a kill
    mark_superseded(path, 0)
    add(path, 1, "b-")
    assert [one.group.key for one in read_rollouts(path) if not one.superseded] == ["b-1"]


def test_discarded_groups_have_their_reason_their_limit_and_the_same_mark(tmp_path: Path) -> None:
    path = RunFolder(tmp_path).rollouts
    add(path, 1, "a-")
    for step in range(1, 9):
        scored = make_scored_group(f"d-{step}", 1.0, 1.0)
        append_discarded(path, scored, step, "no_signal", max_bytes=8000)
    assert mark_superseded(path, 7) == 0, "the number is of trained groups"
    found = [
        DiscardedGroup.model_validate_json(line)
        for name in (DISCARDED_OLDER, DISCARDED)
        for line in (tmp_path / name).read_text().splitlines()
    ]
    assert {one.reason for one in found} == {"no_signal"}
    assert [one.step for one in found if one.superseded] == [8]
    size = (tmp_path / DISCARDED).stat().st_size + (tmp_path / DISCARDED_OLDER).stat().st_size
    assert size <= 8000
    assert [one.group.key for one in read_rollouts(path)] == ["a-1"]


def test_events_of_steps_that_were_done_again_count_once(tmp_path: Path) -> None:
    def step(number: int, reward: float) -> Event:
        content = make_step(number, reward=reward).model_dump(mode="json")
        return Event(time=0, kind="step", data=content)

    def resumed(number: int) -> Event:
        return Event(time=0, kind="resumed", data={"stage": "grpo", "step": number})

    events = [step(1, 0.1), step(2, 0.1), step(3, 0.1), resumed(1), step(2, 0.2), resumed(2)]
    events += [step(3, 0.3), step(4, 0.3), resumed(3)]
    left = [(one.data["step"], one.data["reward"]) for one in living(events) if one.kind == "step"]
    assert left == [(1, 0.1), (2, 0.2), (3, 0.3)], "step 4 is not done again so far"


def test_a_line_that_a_full_disk_cuts_short_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    append_line(file, "one")
    file.write_bytes(file.read_bytes() + b"half")
    append_line(file, "two")
    assert file.read_text() == "one\ntwo\n"
    file.write_bytes(b"x" * 200_000)
    append_line(file, "three")
    assert file.read_text() == "three\n"
