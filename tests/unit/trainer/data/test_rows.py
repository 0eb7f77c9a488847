"""Files of rows in every form, whole, broken and hostile."""

import csv
import gzip
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from assay_shared.errors import DatasetError
from assay_trainer.data import rows
from assay_trainer.data.rows import Layout, read_raw_rows

VALUES: list[Any] = [{"a": "x,]}", "b": [1, {"c": '"\\'}]}, {"a": "\u2028é", "b": []}]


def read(path: Path, layout: Layout | None = None) -> list[Any]:
    """Return the values of a file whose rows can all be read."""
    found = list(read_raw_rows(path, layout or Layout()))
    assert [one.reason for one in found] == [None] * len(found)
    return [one.value for one in found]


def test_every_form_gives_the_same_rows(tmp_path: Path) -> None:
    lines = "\ufeff" + "\n\n".join(json.dumps(one, ensure_ascii=False) for one in VALUES) + "\n"
    array = json.dumps(VALUES, indent=1)
    texts = {"a.jsonl": lines, "a.json": array, "lines.json": lines}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        assert read(tmp_path / name) == read(tmp_path / f"{name}.gz") == VALUES
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist([{"a": "x"}, {"a": "007"}]), tmp_path / "a.parquet"
    )
    (tmp_path / "a.csv").write_text("a\nx\n007\n")
    assert read(tmp_path / "a.parquet") == read(tmp_path / "a.csv") == [{"a": "x"}, {"a": "007"}]


def test_values_of_csv_files_hold_commas_quotes_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows_in = [["1,2", 'say "x"', "a\nb"], ["None", "", "NA"]]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows_in)
    assert read(path, Layout(csv_columns=("p", "q", "r"))) == [
        dict(zip("pqr", row, strict=True)) for row in rows_in
    ]


def test_a_row_that_cannot_be_read_does_not_hide_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"a": 1}\n{"a":\n{"a": 1, "a": 2}\n\xff\n' + b"[" * 100_000 + b'\n{"a": 3}\n'
    )
    found = list(read_raw_rows(path, Layout()))
    assert [(one.number, one.value) for one in found if one.reason is None] == [
        (1, {"a": 1}),
        (6, {"a": 3}),
    ]
    reasons = [one.reason or "" for one in found if one.reason]
    for reason, part in zip(reasons, ["not JSON", "twice", "UTF-8", "nests"], strict=True):
        assert part in reason


def test_an_item_of_an_array_that_cannot_be_read_does_not_hide_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"a": 1}, {"a": 1, "a": 2}, {"b" 2}, 4]')
    found = list(read_raw_rows(path, Layout()))
    assert [one.number for one in found if one.reason] == [2, 3]
    assert found[3].value == 4


@pytest.mark.parametrize("text", ["[1,2", '["a', '[{"a":1}', "["])
def test_an_array_that_breaks_off_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DatasetError, match="breaks off"):
        list(read_raw_rows(path, Layout()))


def test_arrays_are_read_through_any_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A buffer of seven characters cuts texts, numbers and brackets everywhere."""
    monkeypatch.setattr(rows, "_BUFFER_BYTES", 7)
    rng = random.Random(1)
    path = tmp_path / "a.json"
    for _ in range(300):
        values = [_value(rng, 0) for _ in range(rng.randrange(6))]
        path.write_text(json.dumps(values, indent=rng.choice([None, 1])))
        assert read(path) == values


def _value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(6 if depth < 3 else 3)
    if kind == 0:
        return rng.choice(["", 'a"b', "c,]}", "\\", '\\\\"', "é\u2028x"])
    if kind < 3:
        return rng.choice([None, True, rng.random(), rng.randrange(10**6)])
    items = [_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return items if kind < 5 else {f'{at}"': one for at, one in enumerate(items)}


def test_a_long_line_is_refused_without_being_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MAX_ROW_BYTES", 2**16)
    path = tmp_path / "a.jsonl"
    with path.open("w") as file:
        file.write('{"a": "')
        for _ in range(64):
            file.write("x" * 2**18)
        file.write('"}\n{"a": 1}\n')
    tracemalloc.start()
    found = list(read_raw_rows(path, Layout()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(one.number, one.value) for one in found] == [(1, None), (2, {"a": 1})]
    assert peak < 2**20


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="there is no file"):
        list(read_raw_rows(tmp_path / "a.jsonl", Layout()))
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DatasetError, match="does not end with"):
        list(read_raw_rows(tmp_path / "a.txt", Layout()))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n' * 1000)[:-20])
    with pytest.raises(DatasetError, match="cannot be read"):
        list(read_raw_rows(tmp_path / "a.jsonl.gz", Layout()))
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(DatasetError, match="cannot be read"):
        list(read_raw_rows(tmp_path / "a.parquet", Layout()))
    (tmp_path / "a.json").write_text('{"rows": 3}')
    with pytest.raises(DatasetError, match="no list of rows"):
        list(read_raw_rows(tmp_path / "a.json", Layout(list_key="rows")))


#: Without a time: two processes that collect the tests give them the same names.
GZIPPED = gzip.compress(b"{}", mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (
            "a.jsonl",
            gzip.compress(b"{}", mtime=0),
            r"compressed by gzip: its name must end with .gz",
        ),
        ("a.jsonl", b"\x28\xb5\x2f\xfd....", "compressed by zstd"),
        ("a.json", "{}".encode("utf-16"), "is UTF-16: convert it to UTF-8"),
        ("a.csv", b"question;answer\nx;y\n", "separates its columns by semicolons"),
        ("a.csv", b"question\tanswer\nx\ty\n", "separates its columns by tabs"),
        ("a.json", b'{"train": [{"a": 1}], "test": []}', "object with lists of rows: train, test"),
    ],
)
def test_a_file_of_another_form_is_told_by_its_form(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DatasetError, match=reason):
        list(read_raw_rows(tmp_path / name, Layout()))
