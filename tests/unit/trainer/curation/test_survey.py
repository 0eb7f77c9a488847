"""What a person is shown of a set: rows by chance, lengths, and classes."""

import json
from collections import Counter
from pathlib import Path

import pytest

from assay_shared.errors import DatasetError
from assay_trainer.curation.survey import survey
from tests.support.trainer_imports import imported, write_rows


def rows(path: Path, num: int) -> Path:
    """Write tasks whose prompts have 1, 2, ... characters."""
    return write_rows(
        path,
        (
            {"id": f"a/{at}", "role": "train", "prompt": "x" * at, "gold": "y", "rubric": "math"}
            for at in range(1, num + 1)
        ),
    )


def test_every_row_has_the_same_chance(tmp_path: Path) -> None:
    path = rows(tmp_path / "a.jsonl", 20)
    seen: Counter[int] = Counter()
    for seed in range(600):
        shown = [one.number for one in survey(path, 5, seed).rows]
        assert shown == sorted(set(shown))
        assert len(shown) == 5
        seen.update(shown)
    # 150 are expected of each; the deviation is 10.6.
    assert min(seen.values()) > 100
    assert max(seen.values()) < 200
    assert len(seen) == 20


def test_the_same_seed_shows_the_same_rows(tmp_path: Path) -> None:
    path = rows(tmp_path / "a.jsonl", 100)
    assert survey(path, 10, 3).rows == survey(path, 10, 3).rows
    assert survey(path, 10, 3).rows != survey(path, 10, 4).rows


def test_lengths_and_the_share_over_a_limit(tmp_path: Path) -> None:
    found = survey(rows(tmp_path / "a.jsonl", 101), 1, 0, lambda messages, answer: (7, 2))
    prompt, answer, prompt_tokens, _ = found.lengths
    assert prompt.quantiles == {"median": 51, "90%": 91, "99%": 100, "longest": 101}
    assert prompt.share_over(100) == 1 / 101
    assert answer.quantiles["longest"] == 1
    assert (prompt_tokens.unit, prompt_tokens.quantiles["median"]) == ("tokens", 7)


def test_classes_of_real_rows_are_counted(data_folder: Path, tmp_path: Path) -> None:
    path = data_folder / "arc" / "arc_challenge_test.jsonl.gz"
    imported("arc", path, tmp_path / "out")
    found = survey(tmp_path / "out", 10, 0)
    assert found.num_rows == 1172
    assert sum(number for _, number, _ in found.balance("right option")) == 1172
    assert found.balance("role") == [("test", 1172, 1.0)]
    assert len(found.rows) == 10


def test_many_classes_are_one_line(tmp_path: Path) -> None:
    path = write_rows(
        tmp_path / "a.jsonl",
        ({"prompt": "x", "tags": {"family": str(at)}} for at in range(100)),
    )
    balance = survey(path, 1, 0).balance("family")
    assert balance[-1] == ("88 others", 88, 0.88)
    assert sum(number for _, number, _ in balance) == 100


@pytest.mark.parametrize("text", ["", json.dumps({"text": "x"}), "[1]"])
def test_a_file_without_rows_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(DatasetError):
        survey(path, 1, 0)
