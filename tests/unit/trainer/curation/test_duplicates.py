"""Near duplicates leave the training rows, and the search shows that it finds planted ones."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import DatasetError, InternalFault
from assay_shared.types import Role
from assay_trainer.checks.leaks.near_duplicates import NearDuplicateIndex
from assay_trainer.curation import duplicates
from assay_trainer.curation.order import NearOrder
from tests.support.trainer_imports import imported, write_rows

WORDS = [f"word{i}" for i in range(2000)]


def row(text: str) -> dict[str, str]:
    """Return a row of Alpaca's form."""
    return {"instruction": text, "input": "", "output": "Done."}


def texts(num: int, seed: int) -> list[str]:
    """Return texts that share nothing."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=40)) for _ in range(num)]


def with_changed_word(text: str) -> str:
    """Return a text with its middle word changed."""
    words = text.split()
    words[20] = "changed"
    return " ".join(words)


def near_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows that were left out as near duplicates."""
    lines = (folder / "refused.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if one["kind"] == "near_duplicate"]


@pytest.mark.parametrize("block", [7, 5000])
def test_the_later_row_of_a_pair_goes_whatever_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(duplicates, "_BLOCK", block)
    rows = texts(40, seed=1)
    rows[25] = with_changed_word(rows[3])
    rows[26] = with_changed_word(rows[5]).upper()
    rows[39] = with_changed_word(rows[38])
    path = write_rows(tmp_path / "train.jsonl", map(row, rows))
    manifest = imported("alpaca", path, tmp_path / "out")
    assert [one["line"] for one in near_rows(tmp_path / "out")] == [26, 27, 40]
    assert manifest.near_duplicates is not None
    assert manifest.near_duplicates.num_removed == 3
    assert manifest.near_duplicates.num_controls >= 40
    assert manifest.count == 37
    assert len((tmp_path / "out" / "tasks.jsonl").read_text().splitlines()) == 37


def test_siblings_by_a_template_stay(tmp_path: Path) -> None:
    """A question with other numbers and another answer stays; with the same answer, it goes."""
    one, two = texts(2, seed=7)
    rows = [
        {"question": f"{text} Add {at} and 3.", "answer": f"#### {answer}"}
        for text, at, answer in ((one, 1, 4), (one, 2, 5), (two, 1, 5), (two, 2, 5))
    ]
    path = write_rows(tmp_path / "train.jsonl", rows)
    imported("gsm8k", path, tmp_path / "out")
    assert [one["line"] for one in near_rows(tmp_path / "out")] == [4]


def test_rows_of_another_set_leave_the_training_side_only(tmp_path: Path) -> None:
    measured, trained = texts(20, seed=2), texts(30, seed=3)
    trained[4] = with_changed_word(measured[0])
    trained[9] = f"{trained[9]} {measured[1]} {trained[10]}"
    test = write_rows(tmp_path / "test.jsonl", map(row, measured))
    imported("alpaca", test, tmp_path / "test", split="test")
    train = write_rows(tmp_path / "train.jsonl", map(row, trained))
    near = NearOrder(against=(tmp_path / "test",))
    manifest = imported("alpaca", train, tmp_path / "out", near=near)
    found = near_rows(tmp_path / "out")
    assert [one["line"] for one in found] == [5, 10]
    assert "test" in found[0]["reason"]
    assert manifest.near_duplicates is not None
    assert manifest.near_duplicates.against == ("test",)


def test_rows_near_to_the_held_out_share_leave_the_training_side(tmp_path: Path) -> None:
    rows = texts(200, seed=4)
    both = rows + [with_changed_word(text) for text in rows]
    path = write_rows(tmp_path / "train.jsonl", map(row, both))
    manifest = imported("alpaca", path, tmp_path / "out", validation_share=0.3)
    lines = (tmp_path / "out" / "tasks.jsonl").read_text().splitlines()
    kept = [(one["role"], with_changed_word(one["prompt"])) for one in map(json.loads, lines)]
    assert len(kept) == manifest.count
    trained = [text for role, text in kept if role == Role.TRAIN]
    held_out = {text for role, text in kept if role == Role.VALIDATION}
    assert len(set(trained)) == len(trained) > 50
    assert len(held_out) > 50
    assert not held_out & set(trained)
    assert held_out | set(trained) == {with_changed_word(text) for text in rows}


def test_a_search_that_finds_nothing_planted_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NearDuplicateIndex, "matches", lambda self, document: iter(()))
    path = write_rows(tmp_path / "train.jsonl", map(row, texts(10, seed=5)))
    with pytest.raises(InternalFault, match="the leak check is broken"):
        imported("alpaca", path, tmp_path / "out")


def test_many_rows_are_searched_if_a_similarity_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "MAX_ROWS", 5)
    path = write_rows(tmp_path / "train.jsonl", map(row, texts(10, seed=6)))
    manifest = imported("alpaca", path, tmp_path / "a")
    assert manifest.near_duplicates is None
    assert "10 rows are more than 5" in (manifest.not_searched or "")
    named = imported("alpaca", path, tmp_path / "b", near=NearOrder(jaccard=0.8))
    assert named.near_duplicates is not None
    assert named.near_duplicates.jaccard == 0.8


def test_one_prompt_with_two_answers_stays(tmp_path: Path) -> None:
    (text,) = texts(1, seed=8)
    rows = [row(text), row(text.upper()) | {"output": "Another."}, row(with_changed_word(text))]
    path = write_rows(tmp_path / "train.jsonl", rows)
    manifest = imported("alpaca", path, tmp_path / "out")
    assert [one["line"] for one in near_rows(tmp_path / "out")] == [3]
    assert manifest.num_same_prompt == 1


def test_several_near_copies_do_not_hide_each_other(tmp_path: Path) -> None:
    (text,) = texts(1, seed=9)
    rows = [row(text), row(with_changed_word(text)), row(f"{text} indeed"), row(f"So {text}")]
    path = write_rows(tmp_path / "train.jsonl", rows)
    imported("alpaca", path, tmp_path / "out")
    assert [one["line"] for one in near_rows(tmp_path / "out")] == [2, 3, 4]


def test_pairs_are_kept_out_and_nothing_left_is_an_error(tmp_path: Path) -> None:
    measured, trained = texts(20, seed=10), texts(3, seed=11)
    pairs = [{"prompt": one, "chosen": "Yes.", "rejected": "No."} for one in measured]
    test = write_rows(tmp_path / "test.jsonl", pairs)
    imported("preference", test, tmp_path / "test", split="test")
    near = NearOrder(against=(tmp_path / "test",))
    rows = [row(with_changed_word(measured[0])), row(trained[0])]
    path = write_rows(tmp_path / "train.jsonl", rows)
    imported("alpaca", path, tmp_path / "out", near=near)
    assert [one["line"] for one in near_rows(tmp_path / "out")] == [1]
    path = write_rows(tmp_path / "b" / "train.jsonl", rows[:1])
    with pytest.raises(DatasetError, match="nothing is left .*: 1 near_duplicate"):
        imported("alpaca", path, tmp_path / "none", near=near)
    assert not (tmp_path / "none").exists()


def test_a_prompt_without_words_is_a_row(tmp_path: Path) -> None:
    rows = [row("!!!"), row("Say something nice"), row("... ??? !!! ;;; ::: ,,, ((( )))")]
    path = write_rows(tmp_path / "train.jsonl", rows)
    assert imported("alpaca", path, tmp_path / "out").count == 3
