"""The folder that a command may write into."""

from pathlib import Path

import pytest

from assay_shared.errors import InvalidInput
from assay_trainer.evaluate.job import make_own_folder


def test_only_a_new_folder_or_an_evaluations_own_is_written(tmp_path: Path) -> None:
    walk, data = tmp_path / "walk", tmp_path / "sets"
    (walk / "sft-100").mkdir(parents=True)
    (walk / "sft-100" / "evaluation.json").write_text("{}")
    data.mkdir()
    (data / "tasks.jsonl").write_text("{}\n")

    make_own_folder(tmp_path / "new" / "deep")
    (tmp_path / "new" / "deep" / ".lock").write_text("")
    for own in (tmp_path / "new" / "deep", walk, walk / "sft-100"):
        make_own_folder(own)
    for other, message in (
        (data, "sets has tasks.jsonl, and is not an evaluation"),
        (data / "tasks.jsonl", "is a file"),
    ):
        with pytest.raises(InvalidInput, match=message):
            make_own_folder(other)
