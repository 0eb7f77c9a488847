import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from assay_shared.errors import DatasetError
from assay_shared.runs.json_lines import read_json_lines


class Row(BaseModel):
    id: str


def parse(line: object) -> Row:
    row = Row.model_validate(line)
    if row.id == "forbidden":
        raise DatasetError("it is forbidden", field="id")
    return row


def read(path: Path, id_of: Callable[[Row], str] | None = None) -> list[str]:
    return [row.id for row in read_json_lines(path, parse, id_of)]


def line(name: str) -> str:
    return json.dumps({"id": name}, ensure_ascii=False) + "\n"


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    names = ["a\u2028b", "c\x85d", "é"]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(line, names)) + "\r\n", encoding="utf-8")
    assert read(path) == names


def test_gzip_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(line("a").encode()))
    assert read(path) == ["a"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", r"^\S*rows.jsonl:3: not JSON: "),
        ("{}", r"^id: \S*rows.jsonl:3: Field required: the row has no 'id'$"),
        (line("forbidden"), r"^id: \S*rows.jsonl:3: it is forbidden$"),
        (line("a"), r"^id: \S*rows.jsonl:3: 'a' stands in line 1 already$"),
        ('{"id": "b", "id": "c"}', r"^\S*rows.jsonl:3: an object has the key 'id' twice$"),
        ("[" * 100_000, r"^\S*rows.jsonl:3: not JSON that can be read: it nests too deeply$"),
        ("9" * 5_000, r"^\S*rows.jsonl:3: not JSON that can be read: .*4300 digits"),
    ],
)
def test_an_error_names_file_line_and_field(tmp_path: Path, bad: str, message: str) -> None:
    """The line as an editor counts it: empty ones too."""
    path = tmp_path / "rows.jsonl"
    path.write_text(line("a") + "\n" + bad)
    with pytest.raises(DatasetError, match=message):
        read(path, lambda row: row.id)


def test_a_byte_order_mark_at_the_beginning_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\ufeff" + line("a"), encoding="utf-8")
    assert read(path) == ["a"]


def test_ids_may_come_twice_where_nobody_asks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(line("a") * 2)
    assert read(path) == ["a", "a"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.jsonl", None, "there is no file .*none.jsonl"),
        ("rows.jsonl", b'{"id": "\xff"}', "rows.jsonl:1: not UTF-8: "),
        ("rows.jsonl.gz", b"no gzip", "rows.jsonl.gz cannot be read after line "),
        (
            "rows.jsonl.gz",
            gzip.compress(line("a").encode() * 99, mtime=0)[:-9],
            "rows.jsonl.gz cannot be read after line ",
        ),
        (
            "rows.jsonl.gz",
            gzip.compress(line("a").encode(), mtime=0)[:10] + b"\xff" * 20,
            "rows.jsonl.gz cannot be read after line ",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"id": "a"}\n{"id": "\xe9"}\n', r"rows\.jsonl:2: not UTF-8: .* \(byte 8\) "),
        (line("a").encode("utf-16"), r"rows\.jsonl:1: not UTF-8: "),
        (gzip.compress(line("a").encode(), mtime=0), r"rows\.jsonl:1: not UTF-8: "),
    ],
)
def test_another_encoding_is_refused_with_its_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        read(path)


def test_a_folder_and_a_cut_archive_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cannot be read after line 0: Is a directory"):
        read(tmp_path)
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(line("a").encode() * 9)[:-8])
    with pytest.raises(DatasetError, match="cannot be read after line 9: Compressed file ended"):
        read(path)
