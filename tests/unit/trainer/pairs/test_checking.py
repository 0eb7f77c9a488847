"""Swapped labels are found, in published pairs too."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import DatasetError, InvalidInput, RoleError
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Role
from assay_trainer.pairs.checking import CheckOrder, check_pairs, compared, read_pairs, tasks_of
from assay_trainer.pairs.options import CheckedBy
from tests.support.fakes import make_task


def check(source: Path, output: Path, by: CheckedBy = CheckedBy.SCORES, **values: Any) -> Any:
    return check_pairs(CheckOrder(source, output, by, **values), ServiceSettings())


def test_a_fifth_of_swapped_labels_is_told_from_none(tmp_path: Path, data_folder: Path) -> None:
    """UltraFeedback's pairs, and the same ones with 200 of 1,000 labels swapped on purpose."""
    folder = data_folder / "preference"
    clean, swapped = (
        check(folder / f"ultrafeedback_train_1000{name}.jsonl.gz", tmp_path / f"out{name}")
        for name in ("", "_flip20")
    )
    assert clean["label_agreement"]["value"] == 1
    assert swapped["label_agreement"]["high"] < 0.85 < clean["label_agreement"]["low"]
    lines = [
        json.loads(line)
        for line in (tmp_path / "out_flip20" / "pairs.jsonl").read_text().splitlines()
    ]
    found = {one["line"] for one in lines if one["label"] == "disagrees"}
    with gzip.open(folder / "ultrafeedback_train_1000_flip20.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    planted = {at for at, row in enumerate(rows, 1) if row["metadata"]["noise"]["selected"]}
    assert found <= planted, "no true label is doubted"
    assert len(found) == 177, "the other 23 have equal scores"


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


PAIR = {"prompt": "Sum 1 and 1.", "chosen": "2", "rejected": "3"}


def test_rows_without_scores_or_answers_are_counted_apart(tmp_path: Path) -> None:
    rows = (
        PAIR | {"scores": {"chosen": 1, "rejected": 0}},
        PAIR | {"prompt": "Sum 2 and 0.", "score_chosen": 1, "score_rejected": 1},
        PAIR | {"prompt": "Sum 3 and -1."},
        PAIR | {"chosen": "3"},
        {"prompt": "only"},
    )
    numbers = check(write(tmp_path / "p.jsonl", *rows), tmp_path / "out")
    assert numbers["num_pairs"] == 3
    assert numbers["num_unread"] == 2
    assert numbers["judged"] == {"agrees": 1, "disagrees": 0, "undecided": 1, "failed": 1}
    assert numbers["num_scored_tasks"] == 2
    assert check(tmp_path / "p.jsonl", tmp_path / "some", limit=2)["num_pairs"] == 2


def test_copies_of_a_pair_count_once_and_are_told(tmp_path: Path) -> None:
    scored = PAIR | {"score_chosen": 1, "score_rejected": 0}
    swapped = scored | {"chosen": PAIR["rejected"], "rejected": PAIR["chosen"]}
    other = scored | {"prompt": "Sum 2 and 0."}
    rows = (PAIR, scored, scored, scored, swapped, other)
    numbers = check(write(tmp_path / "p.jsonl", *rows), tmp_path / "out")
    counts = {key: numbers[f"num_{key}"] for key in ("pairs", "copies", "swapped", "scored_tasks")}
    assert counts == {"pairs": 3, "copies": 3, "swapped": 1, "scored_tasks": 2}
    assert numbers["judged"]["failed"] == 0, "a copy without scores stands for none"
    lines = (tmp_path / "out" / "pairs.jsonl").read_text().splitlines()
    assert [json.loads(line).get("copies") for line in lines] == [[2, 3, 4], None, None]


def test_what_cannot_be_checked_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="none of 1 pairs could be checked: 1: the row has no"):
        check(write(tmp_path / "p.jsonl", PAIR), tmp_path / "out")
    with pytest.raises(DatasetError, match="there is no file"):
        check(tmp_path / "none", tmp_path / "out")
    with pytest.raises(DatasetError, match="no pair that can be read"):
        read_pairs(write(tmp_path / "q.jsonl", {"prompt": "x"}))
    with pytest.raises(InvalidInput, match="do not name a rubric"):
        check(tmp_path / "p.jsonl", tmp_path / "out", CheckedBy.REWARD)


def test_a_set_may_hold_tests_that_no_pair_names(tmp_path: Path) -> None:
    task = make_task("a", role=Role.TRAIN).model_dump(mode="json")
    held = make_task("b", role=Role.TEST).model_dump(mode="json")
    tasks = write(tmp_path / "tasks.jsonl", task, held)

    def of(task_id: str) -> list[str]:
        path = write(tmp_path / "pairs.jsonl", PAIR | {"task_id": task_id})
        order = CheckOrder(path, tmp_path / "out", CheckedBy.REWARD, tasks=str(tasks))
        return [one.id for one in tasks_of(read_pairs(path)[0], order)]

    assert of("a") == ["a"]
    with pytest.raises(RoleError, match="'b', which is for test only"):
        of("b")
    with pytest.raises(InvalidInput, match="'c', which .*tasks.jsonl does not have"):
        of("c")


def test_equal_scores_decide_nothing() -> None:
    assert [compared(one) for one in ((1, 0), (0, 1), (1, 1))] == [
        "agrees",
        "disagrees",
        "undecided",
    ]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 10**400])
def test_a_score_that_cannot_be_compared_says_nothing_of_the_label(
    tmp_path: Path, score: float
) -> None:
    rows = (
        PAIR | {"score_chosen": 1, "score_rejected": 0},
        PAIR | {"prompt": "Sum 2 and 0.", "score_chosen": score, "score_rejected": 0},
    )
    numbers = check(write(tmp_path / "p.jsonl", *rows), tmp_path / "out")
    assert numbers["judged"]["agrees"] == 1
    assert numbers["judged"]["disagrees"] == 0
    assert numbers["num_scored_tasks"] == 1
