"""The files that an import reads, and those that it does not."""

from pathlib import Path

import pytest

from assay_shared.errors import DatasetError
from assay_shared.types import Role
from assay_trainer.curation.files import check_shards
from tests.support.trainer_imports import imported, write_rows

ROW = {"question": "What is 2 + 3?", "answer": "#### 5"}


def test_a_folder_without_one_of_its_parts_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for at in range(2):
        write_rows(folder / f"train-0000{at}-of-00003.jsonl", [ROW | {"question": f"{at} + 1?"}])
    missing = folder / "train-00002-of-00003.jsonl"
    expected = "1 of 3 files are missing or cannot be read: train-00002-of-00003"
    for make in (None, lambda: missing.symlink_to("/nowhere"), lambda: missing.unlink()):
        if make is not None:
            make()
        with pytest.raises(DatasetError, match=expected):
            imported("gsm8k", folder, tmp_path / "out")
    missing.with_suffix(".zst").write_bytes(b"x")
    with pytest.raises(DatasetError, match=expected):
        imported("gsm8k", folder, tmp_path / "out")
    write_rows(missing, [ROW])
    manifest = imported("gsm8k", folder, tmp_path / "out")
    assert (manifest.count, manifest.not_read) == (3, ("train-00002-of-00003.zst",))


def test_parts_are_numbered_from_0_or_from_1() -> None:
    check_shards(["a-00001-of-00002.csv", "a-00002-of-00002.csv", "b.csv"])
    with pytest.raises(DatasetError, match="a-00001-of-00002"):
        check_shards(["x/a-00000-of-00002.csv", "y/a-00001-of-00002.csv"])


def test_other_files_of_the_folder_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for name in ("train.jsonl", "extra.jsonl", "deep/README.md", "test.jsonl"):
        write_rows(folder / name, [ROW])
    manifest = imported("gsm8k", folder, tmp_path / "out", split="train")
    assert manifest.not_read == ("deep/README.md", "extra.jsonl", "test.jsonl")
    assert [one.name for one in manifest.files] == ["train.jsonl"]


def test_an_imported_folder_is_read_by_its_rows_alone(tmp_path: Path) -> None:
    rows = [ROW | {"question": f"What is {at} + 3?"} for at in range(50)]
    path = write_rows(tmp_path / "train.jsonl", rows)
    first = imported("gsm8k", path, tmp_path / "one", validation_share=0.3)
    again = imported("tasks", tmp_path / "one", tmp_path / "two")
    assert (again.num_rows_read, again.roles) == (50, first.roles)
    assert again.roles[Role.VALIDATION] > 0
    with pytest.raises(DatasetError, match="is an imported folder of tasks, not gsm8k"):
        imported("gsm8k", tmp_path / "one", tmp_path / "three")


def test_a_name_in_another_encoding_is_shown_with_escapes(tmp_path: Path) -> None:
    path = tmp_path / "\udcff\udcfetrain.jsonl"
    write_rows(path, [ROW, {"question": 1}])
    manifest = imported("gsm8k", path, tmp_path / "out", max_refused_share=0.5)
    assert manifest.source == r"\xff\xfetrain.jsonl"
    row = {"instruction": "Say yes to me", "output": "Yes"}
    assert imported("alpaca", write_rows(path, [row]), tmp_path / "b", split="train").count == 1
