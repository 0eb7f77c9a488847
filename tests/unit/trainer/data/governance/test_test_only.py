"""Published test sets cannot be trained on, by any path and in any dress."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import DatasetError, RoleError
from assay_shared.types import Role, Task
from assay_trainer.config import Gsm8kSource, JsonlSource, Source
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.data.governance.test_only import known_prompts
from assay_trainer.data.preferences import open_preferences
from assay_trainer.table_source import PreferenceFile, RowMap, TableSource
from tests.support.trainer_imports import imported, read_all, write_rows

SETS = [
    ("humaneval", "HumanEval.jsonl.gz", "test", 164),
    ("humaneval", "evalplus/humaneval_plus_originfmt.jsonl.gz", "test", 164),
    ("mbpp", "evalplus/mbpp_974.jsonl.gz", "reg", 200),
    ("gsm8k", "gsm8k/test.jsonl", "test", 1319),
    ("aime", "aime_amc/aime_2024.jsonl.gz", "test", 30),
    ("arc", "arc/arc_challenge_test.jsonl.gz", "test", 1172),
    ("ifeval", "ifeval/input_data.jsonl.gz", "test", 541),
    ("bbh", "bbh/bbh_all.jsonl.gz", "test", 6506),
]


def problem(data_folder: Path) -> str:
    """Return a prompt of HumanEval."""
    with gzip.open(data_folder / "HumanEval.jsonl.gz", "rt") as file:
        return str(json.loads(file.readline())["prompt"])


def task(prompt: str, **changes: Any) -> Task:
    """Return a task for training."""
    made = Task(id="a/1", dataset="a", role=Role.TRAIN, prompt=prompt, rubric="math", gold="1")
    return made.model_copy(update=changes)


@pytest.mark.parametrize(("name", "file", "split", "least"), SETS)
def test_the_package_knows_published_test_sets(
    data_folder: Path, name: str, file: str, split: str, least: int
) -> None:
    found, _ = read_all(name, data_folder / file, split)
    known = known_prompts(None)
    assert sum(known.find_in(one.task) is not None for one in found) >= least
    assert sum(known.counts.values()) == 24_354


def test_sets_of_others_that_rewrite_humaneval_are_found(data_folder: Path) -> None:
    """HumanEvalPack's two prompts, MBPP as functions with docstrings, and RM-Bench's code rows."""
    known = known_prompts(None)

    def number(file: str, field: str, name: str) -> int:
        with gzip.open(data_folder / file, "rt", newline="\n") as lines:
            return sum(known.find(json.loads(line)[field]) == name for line in lines)

    pack = "buggy_code/humanevalpack_python_164.jsonl.gz"
    assert number(pack, "prompt", "humaneval") == number(pack, "instruction", "humaneval") == 164
    assert number("buggy_code/ldb_gpt35_mbpp_500.jsonl.gz", "prompt", "mbpp") == 495
    assert number("rmbench/rmbench_500.jsonl.gz", "prompt", "humaneval") == 79


@pytest.mark.parametrize("file", ["gsm8k/train.jsonl"])
def test_no_row_of_a_training_split_is_refused_for_its_test_split(
    data_folder: Path, file: str
) -> None:
    source = Gsm8kSource(kind="gsm8k", path=data_folder / "gsm8k")
    assert len(open_dataset(source, DatasetPurpose.TRAIN, None).tasks) == 7473


def test_a_copied_row_is_refused_by_every_path(data_folder: Path, tmp_path: Path) -> None:
    prompt = problem(data_folder)
    chat = f"Complete this function:\n\n```python\n{prompt.strip()}\n```\nReturn code alone."
    copied = write_rows(tmp_path / "copied.jsonl", [task(chat).model_dump(mode="json")])
    table = write_rows(tmp_path / "table.jsonl", [{"q": chat, "a": "1"}])
    pairs = write_rows(
        tmp_path / "pairs.jsonl",
        [{"prompt": [{"role": "user", "content": chat}], "chosen": "a", "rejected": "b"}],
    )
    sources: list[Source] = [
        JsonlSource(kind="jsonl", path=copied),
        TableSource(
            kind="table",
            path=table,
            role=Role.TRAIN,
            map=RowMap(prompt="Q: {q}", gold="{a}", rubric="math"),
        ),
    ]
    for source in sources:
        with pytest.raises(RoleError, match="has a prompt of humaneval"):
            open_dataset(source, DatasetPurpose.TRAIN, None)
        assert len(open_dataset(source, DatasetPurpose.EVALUATE, None).tasks) == 1
    with pytest.raises(RoleError, match="has a prompt of humaneval"):
        open_preferences(PreferenceFile(kind="jsonl", path=pairs))


def test_earlier_messages_are_searched_too(data_folder: Path, tmp_path: Path) -> None:
    history = [{"role": "user", "content": problem(data_folder)}]
    row = task("Continue, please.").model_dump(mode="json") | {"history": history}
    path = write_rows(tmp_path / "a.jsonl", [row])
    with pytest.raises(RoleError, match="humaneval"):
        open_dataset(JsonlSource(kind="jsonl", path=path), DatasetPurpose.TRAIN, None)


def test_questions_of_choice_are_found_with_any_labels_in_any_order(data_folder: Path) -> None:
    found, _ = read_all("arc", data_folder / "arc/arc_challenge_test.jsonl.gz", "test")
    known = known_prompts(None)
    for label in ("- ", "(i) ", "1) "):
        for one in found:
            options = "\n".join(f"{label}{text}" for text in reversed(one.options))
            assert known.find(f"Question: {one.question}\nChoices:\n{options}") == "arc"


def test_a_copy_inside_an_answer_is_refused_by_every_path(
    data_folder: Path, tmp_path: Path
) -> None:
    answer = f"Here is an example:\n{problem(data_folder)}"
    row = task("Show me an example.", gold=answer).model_dump(mode="json")
    tasks = write_rows(tmp_path / "a.jsonl", [row])
    with pytest.raises(RoleError, match="has a prompt of humaneval"):
        open_dataset(JsonlSource(kind="jsonl", path=tasks), DatasetPurpose.TRAIN, None)
    for better, worse in ((answer, "No"), ("No", answer)):
        pair = {"prompt": "Show me an example.", "chosen": better, "rejected": worse}
        pairs = write_rows(tmp_path / "pairs.jsonl", [pair])
        with pytest.raises(RoleError, match="has a prompt of humaneval"):
            open_preferences(PreferenceFile(kind="jsonl", path=pairs))
        manifest = imported("preference", pairs, tmp_path / "none", split="test")
        assert manifest.count == 1
        with pytest.raises(DatasetError, match="nothing is left .*: 1 test_only"):
            imported("preference", pairs, tmp_path / "out", split="train")
        shutil.rmtree(tmp_path / "none")
