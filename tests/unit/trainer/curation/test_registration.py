from pathlib import Path

import pytest

from assay_shared.errors import DatasetError, RoleError
from assay_shared.types import Role, Task
from assay_trainer.config import JsonlSource
from assay_trainer.curation.registration import register_set
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from tests.support.trainer_imports import imported, write_rows

QUESTION = "How many apples are left if Ann eats two of the nine?"


def test_an_own_test_set_is_registered_and_then_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    row = {"question": QUESTION, "answer": "#### 7"}
    short = {"question": "Why?", "answer": "#### 0"}
    path = write_rows(tmp_path / "test.jsonl", [row, row, short])
    imported("gsm8k", path, tmp_path / "mine")
    copied = Task(id="a/1", dataset="a", role=Role.TRAIN, prompt=f"Q: {QUESTION}!", rubric="math")
    source = JsonlSource(
        kind="jsonl", path=write_rows(tmp_path / "a.jsonl", [copied.model_dump(mode="json")])
    )
    assert open_dataset(source, DatasetPurpose.TRAIN, data).tasks
    file, number, total = register_set(tmp_path / "mine", "mine", None, data)
    assert (file, number, total) == (data / "test_only" / "mine.npz", 2, 3)
    with pytest.raises(RoleError, match="has a prompt of mine, which is for tests only"):
        open_dataset(source, DatasetPurpose.TRAIN, data)
    assert open_dataset(source, DatasetPurpose.TRAIN, None).tasks


def test_a_set_with_training_rows_is_not_registered(tmp_path: Path) -> None:
    rows = [{"question": QUESTION, "answer": "#### 7"}]
    imported("gsm8k", write_rows(tmp_path / "train.jsonl", rows), tmp_path / "mine")
    with pytest.raises(RoleError, match="has rows for training"):
        register_set(tmp_path / "mine", None, tmp_path / "x.npz", None)


def test_without_a_place_the_register_says_so(tmp_path: Path) -> None:
    rows = [{"question": QUESTION, "answer": "#### 7"}]
    imported("gsm8k", write_rows(tmp_path / "test.jsonl", rows), tmp_path / "mine")
    with pytest.raises(DatasetError, match="where is the register"):
        register_set(tmp_path / "mine", None, None, None)
