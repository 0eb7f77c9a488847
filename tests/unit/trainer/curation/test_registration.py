from pathlib import Path

import pytest

from assay_shared.errors import Conflict, DatasetError, InvalidInput, RoleError
from assay_shared.types import Role, Task
from assay_trainer.config import JsonlSource
from assay_trainer.curation.registration import register_set
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.data.governance.test_only import known_prompts
from tests.support.trainer_imports import imported, write_rows

QUESTION = "How many apples are left if Ann eats two of the nine?"


def test_an_own_test_set_is_registered_and_then_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
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


def test_a_registered_set_is_not_replaced_without_a_word(tmp_path: Path) -> None:
    rows = [{"question": QUESTION, "answer": "#### 7"}]
    imported("gsm8k", write_rows(tmp_path / "test.jsonl", rows), tmp_path / "mine")
    file, _, _ = register_set(tmp_path / "mine", None, None, tmp_path)
    with pytest.raises(Conflict, match=r"gsm8k.npz is registered already"):
        register_set(tmp_path / "mine", None, None, tmp_path)
    assert register_set(tmp_path / "mine", None, None, tmp_path, replace=True)[0] == file


@pytest.mark.parametrize("name", ["", "../evil", "a/b", "/tmp/x", ".hidden", "a" * 81])
def test_a_name_cannot_lead_out_of_the_register(tmp_path: Path, name: str) -> None:
    rows = [{"question": QUESTION, "answer": "#### 7"}]
    imported("gsm8k", write_rows(tmp_path / "test.jsonl", rows), tmp_path / "mine")
    with pytest.raises(InvalidInput, match="is not a name"):
        register_set(tmp_path / "mine", name, None, tmp_path)


def test_a_missing_folder_of_registered_sets_is_an_error(tmp_path: Path) -> None:
    row = Task(id="a/1", dataset="a", role=Role.TRAIN, prompt=QUESTION, rubric="math")
    path = write_rows(tmp_path / "a.jsonl", [row.model_dump(mode="json")])
    source = JsonlSource(kind="jsonl", path=path)
    with pytest.raises(DatasetError, match="its registered test sets are not known"):
        open_dataset(source, DatasetPurpose.TRAIN, tmp_path / "nothing")


def test_prompts_of_signs_that_share_their_words_are_registered(tmp_path: Path) -> None:
    """Five prompts are told apart by their brackets alone."""
    ask = "Complete the rest of the sequence, so that all parentheses are closed. Input:"
    rows = [{"task": "x", "input": f"{ask} {'[ (' * n} {{", "target": "}"} for n in range(1, 6)]
    imported("bbh", write_rows(tmp_path / "test.jsonl", rows), tmp_path / "mine")
    assert register_set(tmp_path / "mine", "mine", None, tmp_path)[1:] == (5, 5)
    for text, is_found in ((rows[2]["input"], True), (f"{ask} [ [ [ {{", False)):
        task = Task(id="a/1", dataset="a", role=Role.TRAIN, prompt=text, rubric="math")
        assert (known_prompts(tmp_path).find_in(task) == "mine") is is_found
