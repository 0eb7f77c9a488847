import csv
import gzip
import itertools
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pyarrow
import pyarrow.parquet
import pytest
from pydantic import ValidationError

from assay_shared.errors import DatasetError, RoleError
from assay_shared.types import Role
from assay_trainer.config import Gsm8kSource
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.data.run_data import open_set
from assay_trainer.data.tables import read_rows, row_parser
from assay_trainer.events import TaskSetAside
from assay_trainer.table_source import RowMap, TableSource

ROWS: list[dict[str, Any]] = [
    {"question": "2 + 3?", "answer": "2 + 3 = <<2+3=5>>5\n#### 5"},
    {"question": 'Say "a,b"\nor c?', "answer": "It is 007.\n#### 007"},
]
GSM8K = {
    "prompt": "{question}\n\nWork it out step by step. Write the number alone, after ####, in the "
    "last line.",
    "gold": "{answer:no_calculator}",
    "reference": "{answer:after_hashes}",
    "rubric": "math",
}
SUFFIXES = ["parquet", "csv", "jsonl", "jsonl.gz"]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode()))
    else:
        path.write_text(lines)
    return path


def table(path: Path, **row_map: str) -> TableSource:
    return TableSource(kind="table", path=path, map=RowMap(**row_map), role=Role.TRAIN)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_tasks(tmp_path: Path, suffix: str) -> None:
    source = table(write(tmp_path / f"sums.{suffix}", ROWS), **GSM8K)
    first, second = open_dataset(source, DatasetPurpose.TRAIN, None).tasks
    assert (first.id, first.dataset, first.rubric) == ("sums/train/0", "sums", "math")
    assert (first.gold, first.reference) == ("2 + 3 = 5\n#### 5", "5")
    assert second.prompt.startswith('Say "a,b"\nor c?\n\nWork')
    assert second.reference == "007"


def test_gsm8ks_own_file_gives_the_tasks_of_its_own_kind(tmp_path: Path, data_folder: Path) -> None:
    own = Gsm8kSource(kind="gsm8k", split="train")
    expected = open_dataset(own, DatasetPurpose.TRAIN, data_folder).tasks
    with (data_folder / "gsm8k" / "train.jsonl").open() as lines:
        rows = [json.loads(line) for line in lines]
    source = table(write(tmp_path / "gsm8k.parquet", rows), **GSM8K)
    tasks = open_dataset(source, DatasetPurpose.TRAIN, None).tasks
    names = ("id", "dataset", "role", "prompt", "rubric", "gold", "reference")
    assert len(tasks) == 7473
    for found, wanted in zip(tasks, expected, strict=True):
        spaced = wanted.model_copy(update={"gold": found.gold})
        assert [getattr(found, name) for name in names] == [getattr(spaced, name) for name in names]
        assert (found.gold or "").replace(" ", "") == (wanted.gold or "").replace(" ", "")


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
@pytest.mark.parametrize(
    ("template", "value", "expected"),
    [
        ("{x}", 3, "3"),
        ("{x.y}, {x.z.1}", {"y": "a", "z": ["b", "c"]}, "a, c"),
        ("{x:lettered}", ["no", "yes"], "A. no\nB. yes"),
        ("{x:letter}", 2, "C"),
        ("{x:boxed}", r"so \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{{{x}}}", "7", r"\boxed{7}"),
        ("{x}", "{not a template}", "{not a template}"),
    ],
)
def test_a_template_takes_columns_their_parts_and_an_extractors_part(
    tmp_path: Path, suffix: str, template: str, value: object, expected: str
) -> None:
    path = write(tmp_path / f"t.{suffix}", [{"x": value}])
    source = table(path, prompt=template, rubric="math")
    assert open_dataset(source, DatasetPurpose.TRAIN, None).tasks[0].prompt == expected


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("question", "names no column: write {question}"),
        ("{question} in \\boxed{}", "braces hold a column's name.*{{ and }}"),
        ("{question!r}", "braces hold a column's name"),
        ("{question:eval}", "there is no extractor eval; there are after_hashes, boxed"),
        ("{question", "expected '}'"),
    ],
)
def test_a_wrong_template_is_refused_with_the_run_file(prompt: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RowMap(prompt=prompt, rubric="math")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_wrong_column_is_named_with_the_columns_there_are(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"t.{suffix}", ROWS)
    with pytest.raises(DatasetError, match=r"querstion: .*no such column. .*: question, answer"):
        open_dataset(table(path, prompt="{querstion}", rubric="math"), DatasetPurpose.TRAIN, None)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
@pytest.mark.parametrize(
    ("template", "good", "bad", "message"),
    [
        ("{x}", "a", None, "is null"),
        ("{x.0}", ["a"], [None], "is null"),
        ("{x:boxed}", r"\boxed{1}", "no box", "boxed finds nothing in 'no box'"),
        ("{x:after_hashes}", "#### 1", "#### ", "after_hashes finds nothing"),
        ("{x:letter}", 1, 26, "letter finds nothing"),
        ("{x:lettered}", ["a"], ["a"] * 27, "lettered takes a list of at most 26"),
    ],
)
def test_a_bad_value_is_refused_with_file_row_and_column_and_set_aside_in_a_run(
    tmp_path: Path, suffix: str, template: str, good: object, bad: object, message: str
) -> None:
    path = write(tmp_path / f"t.{suffix}", [{"q": "a", "x": good}, {"q": "b", "x": bad}])
    source = table(path, prompt="{q}", gold=template, rubric="m")
    with pytest.raises(DatasetError, match=rf"x.*: .*t\.{suffix}:2: {message}"):
        open_dataset(source, DatasetPurpose.TRAIN, None)
    told: list[TaskSetAside] = []
    opened = open_set("training", source, DatasetPurpose.TRAIN, None, 0.5, told.append)
    assert [task.id for task in opened.dataset.tasks] == ["t/train/0"]
    assert told[0].task == "t/train/1"
    assert f"t.{suffix}, row 2: x" in told[0].reason
    assert message in told[0].reason
    with pytest.raises(DatasetError, match="at most 0 may be set aside"):
        open_set("training", source, DatasetPurpose.TRAIN, None, 0, told.append)


def test_a_list_is_no_text(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", [{"x": ["a"]}])
    with pytest.raises(DatasetError, match=r"x: .*must be a text or a number, not list; column"):
        open_dataset(table(path, prompt="{x}", rubric="m"), DatasetPurpose.TRAIN, None)


def test_what_is_for_tests_is_not_trained_on(tmp_path: Path) -> None:
    source = table(write(tmp_path / "t.jsonl", ROWS), **GSM8K).model_copy(
        update={"role": Role.TEST}
    )
    with pytest.raises(RoleError, match="role: train in the source says otherwise"):
        open_dataset(source, DatasetPurpose.TRAIN, None)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.parquet", None, "there is no file"),
        ("none.csv", None, "there is no file"),
        ("bad.parquet", b"PAR1 no", "cannot be read: "),
        ("t.json", b"[]", r"does not end with \.parquet, \.csv"),
        ("t.csv", b"question,answer\na,b\nc,d,e\n", "cannot be read"),
    ],
)
def test_a_file_that_is_no_table_is_named(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DatasetError, match=rf"{name}.*{message}|{message}.*{name}"):
        open_dataset(table(tmp_path / name, **GSM8K), DatasetPurpose.TRAIN, None)


def test_memory_does_not_grow_with_a_parquet_file(tmp_path: Path) -> None:
    """200 MB of text in row groups of 10 MB; columns outside the templates are not read."""
    path, process = tmp_path / "big.parquet", psutil.Process()
    row_group = pyarrow.table({"x": [f"{n}" * 500 for n in range(1000, 6000)], "y": ["y"] * 5000})
    with pyarrow.parquet.ParquetWriter(path, row_group.schema, compression="none") as writer:
        for _ in range(20):
            writer.write_table(row_group)
    row_map = RowMap(prompt="{x}", rubric="m")
    parse = row_parser(row_map, "big", Role.TRAIN, itertools.count(), None)
    tasks = read_rows(path, row_map, parse)
    next(tasks)
    before, most = process.memory_info().rss, 0
    for number, _ in enumerate(tasks):
        if number % 1000 == 0:
            most = max(most, process.memory_info().rss)
    assert most - before < 80 * 2**20


def test_decimals_are_texts_without_an_exponent(tmp_path: Path) -> None:
    rows = [{"question": "Price?", "answer": Decimal(text)} for text in ("12.50", "1E+2", "-0.07")]
    row_map = RowMap(prompt="{question}", gold="{answer}", rubric="math")
    path = tmp_path / "prices.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    source = TableSource(kind="table", path=path, map=row_map, role=Role.TRAIN)
    tasks = open_dataset(source, DatasetPurpose.TRAIN, None).tasks
    assert [task.gold for task in tasks] == ["12.50", "100.00", "-0.07"]


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_not_finite_is_no_answer(tmp_path: Path, name: str) -> None:
    path = tmp_path / "sums.jsonl"
    path.write_text(f'{{"question": "1 + 1?", "answer": {name}}}\n')
    row_map = RowMap(prompt="{question}", gold="{answer}", rubric="math")
    source = TableSource(kind="table", path=path, map=row_map, role=Role.TRAIN)
    with pytest.raises(DatasetError, match=r"answer: .*sums\.jsonl:1: is -?(nan|inf): a text or"):
        open_dataset(source, DatasetPurpose.TRAIN, None)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("{messages}", r"messages: .*chats\.jsonl:1: is a chat as a text: a list of messages"),
        ("{messages.0.content}", r"messages\.0\.content: .*:1: names a part, '0', of a text"),
    ],
)
@pytest.mark.parametrize(
    "chat",
    [
        '[{"role": "user", "content": "1 + 1?"}]',
        "[{'role': 'user', 'content': '1 + 1?'}]",
        "[{'content': '1 + 1?', 'role': 'user'}\n {'content': '2', 'role': 'assistant'}]",
        "array([{'content': '1 + 1?', 'role': 'user'}], dtype=object)",
    ],
)
def test_messages_as_a_text_are_refused(
    tmp_path: Path, prompt: str, message: str, chat: str
) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text(json.dumps({"messages": chat, "answer": "2"}) + "\n")
    row_map = RowMap(prompt=prompt, gold="{answer}", rubric="math")
    source = TableSource(kind="table", path=path, map=row_map, role=Role.TRAIN)
    with pytest.raises(DatasetError, match=message):
        open_dataset(source, DatasetPurpose.TRAIN, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"rows\.csv cannot be read: Empty CSV file"),
        (b"question,answer\n", r"rows\.csv has no tasks"),
        (b"question,question,answer\na,b,c\n", "question: .*there are 2 such columns"),
        (b"question,answer\ncaf\xe9,c\n", "invalid UTF8"),
        (b'question,answer\n"' + b"x" * 9_000_000 + b'",c\n', "a row has more than 4194304 bytes"),
    ],
)
def test_a_hostile_csv_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    row_map = RowMap(prompt="{question}", gold="{answer}", rubric="math")
    source = TableSource(kind="table", path=path, map=row_map, role=Role.TRAIN)
    with pytest.raises(DatasetError, match=message):
        open_dataset(source, DatasetPurpose.TRAIN, None)


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(
    tmp_path: Path, data_folder: Path
) -> None:
    """Real rows, as another system would write them."""
    rows = (data_folder / "gsm8k" / "train.jsonl").read_text().splitlines()[:20]
    row_map = RowMap(prompt="{question}", gold="{answer}", rubric="math")
    found = []
    for content in ("\n".join(rows).encode(), b"\xef\xbb\xbf" + "\r\n".join(rows).encode()):
        path = tmp_path / "train.jsonl"
        path.write_bytes(content)
        source = TableSource(kind="table", path=path, map=row_map, role=Role.TRAIN)
        found.append(open_dataset(source, DatasetPurpose.TRAIN, None).tasks)
    assert found[0] == found[1]
    assert len(found[0]) == 20
