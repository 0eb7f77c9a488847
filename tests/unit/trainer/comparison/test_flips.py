"""Answers that turned right or wrong."""

from pathlib import Path

from assay_trainer.comparison.flips import NUM_SHOWN, flips_of
from assay_trainer.comparison.loading import read_arm
from tests.support.evaluations import RIGHT, WRONG, make_sample, write_evaluation


def test_turned_tasks_are_counted_and_a_few_are_shown(tmp_path: Path) -> None:
    before = {f"t{i}": [RIGHT if i < 5 else WRONG] for i in range(20)}
    after = {f"t{i}": [RIGHT if 3 <= i < 12 else WRONG] for i in range(20)} | {"t19": [None]}
    arms = [
        read_arm(None, [str(write_evaluation(tmp_path / name, {"m": tasks}))])
        for name, tasks in (("before", before), ("after", after))
    ]
    (found,) = flips_of(arms[0], arms[1])
    assert (found.both_right, found.turned_right, found.turned_wrong) == (2, 7, 3)
    assert found.both_wrong == 7, "t19 has no answer on one side"
    assert found.wrong_ids == ["t0", "t1", "t2"]
    assert len(found.shown_right) == NUM_SHOWN
    assert found.shown_right[0].before_outcome is WRONG
    assert found.shown_right[0].after == "answer 0 of t5: accepted"


def test_long_answers_are_cut(tmp_path: Path) -> None:
    def long_sample(task_id: str, index: int, outcome: object, **_: object) -> object:
        return make_sample(task_id, index, outcome, text="x" * 10_000)  # type: ignore[arg-type]

    arms = [
        read_arm(
            None,
            [str(write_evaluation(tmp_path / name, {"m": {"t": [one]}}, sample=long_sample))],  # type: ignore[arg-type]
        )
        for name, one in (("before", WRONG), ("after", RIGHT))
    ]
    shown = flips_of(arms[0], arms[1])[0].shown_right[0]
    assert len(shown.before) < 3100
    assert shown.before.endswith("... (10000 characters)")
