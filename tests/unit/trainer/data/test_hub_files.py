import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from assay_shared.errors import DatasetError, RoleError
from assay_shared.types import Role
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.data.hub_files import split_files
from assay_trainer.hub import resolve
from assay_trainer.table_source import HubSource, RowMap
from tests.support.hub import LocalHub

NAME = "owner/sums"
CARD = b"""---
license: mit
configs:
- config_name: main
  default: true
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: [main/test-*]
- config_name: socratic
  data_dir: socratic
  data_files: "*.csv"
---
# Sums
"""
CARD_FILES = ["main/train-0.parquet", "main/train-1.parquet", "main/test-0.parquet"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    with LocalHub(tmp_path / "served").running() as served:
        served.use(monkeypatch, tmp_path / "home")
        yield served


def parquet(*questions: str) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"question": questions}), file)
    return file.getvalue()


def source(split: str, **changes: str | Role) -> HubSource:
    row_map = RowMap(prompt="{question}", rubric="math")
    values = {"kind": "hub", "name": NAME, "split": split, "map": row_map}
    return HubSource.model_validate(values | changes)


def test_a_split_is_all_its_files_in_order_and_no_other_is_downloaded(hub: LocalHub) -> None:
    files = [parquet("a", "b"), parquet("c"), parquet("d")]
    shards = [f"main/train-0000{n}-of-00002.parquet" for n in range(2)]
    names = [*shards, "main/test-00000-of-00001.parquet"]
    hub.publish("datasets", NAME, dict(zip(names, files, strict=True)))
    tasks = open_dataset(source("train"), DatasetPurpose.TRAIN, None).tasks
    assert [task.prompt for task in tasks] == ["a", "b", "c"]
    assert [task.id for task in tasks] == [f"owner/sums/train/{n}" for n in range(3)]
    assert not any("test-" in path for _, path, _ in hub.asked)


@pytest.mark.parametrize(
    ("files", "config", "split", "expected"),
    [
        (CARD_FILES, None, "train", CARD_FILES[:2]),
        (CARD_FILES, "main", "test", CARD_FILES[2:]),
        (["socratic/x.csv", "socratic/more/y.csv"], "socratic", "train", ["socratic/x.csv"]),
    ],
)
def test_the_card_says_which_files_a_split_is(
    hub: LocalHub, files: list[str], config: str | None, split: str, expected: list[str]
) -> None:
    hub.publish("datasets", NAME, {"README.md": CARD} | dict.fromkeys(files, b"x"))
    asked = source(split).model_copy(update={"config": config})
    assert list(split_files(asked, resolve("dataset", NAME, None))) == expected


@pytest.mark.parametrize(
    ("files", "split", "expected"),
    [
        (["data/train_sft-00000-of-00001-abc.parquet"], "train_sft", 1),
        (["train.jsonl", "test.jsonl.gz"], "test", 1),
        (["data/dev.csv", "data/train.csv"], "validation", 1),
        (["en/train/0000.parquet", "en/train/0001.parquet"], "train", 2),
        (["aime.jsonl"], "train", 1),
    ],
)
def test_without_a_card_names_say_the_split(
    hub: LocalHub, files: list[str], split: str, expected: int
) -> None:
    hub.publish("datasets", NAME, dict.fromkeys(files, b"x"))
    assert len(split_files(source(split), resolve("dataset", NAME, None))) == expected


@pytest.mark.parametrize(
    ("files", "changes", "message"),
    [
        (CARD_FILES, {"split": "dev"}, r"split: there is no split 'dev' There are: test, train"),
        (CARD_FILES, {"config": "man"}, r"config: there is no config 'man' There are: .*main, soc"),
        (["code.py", "a.json"], {}, r"no file that ends with \.parquet.*refs/convert/parquet"),
    ],
)
def test_what_is_not_there_is_told_with_what_there_is(
    hub: LocalHub, files: list[str], changes: dict[str, str], message: str
) -> None:
    card = {"README.md": CARD} if files is CARD_FILES else {}
    hub.publish("datasets", NAME, card | dict.fromkeys(files, b"x"))
    with pytest.raises(DatasetError, match=message):
        open_dataset(source("train").model_copy(update=changes), DatasetPurpose.TRAIN, None)


@pytest.mark.rule("test data cannot be trained on")
def test_a_split_for_tests_is_trained_on_only_if_the_run_file_says_so(hub: LocalHub) -> None:
    files = [f"{split}.parquet" for split in ("train", "test", "validation")]
    hub.publish("datasets", NAME, dict.fromkeys(files, parquet("a")))
    for split, role in (("test", Role.TEST), ("validation", Role.VALIDATION)):
        with pytest.raises(RoleError, match=rf"for {role} only.*role: train in the source"):
            open_dataset(source(split), DatasetPurpose.TRAIN, None)
        opened = open_dataset(source(split, role=Role.TRAIN), DatasetPurpose.TRAIN, None)
        assert opened.tasks[0].role is Role.TRAIN
