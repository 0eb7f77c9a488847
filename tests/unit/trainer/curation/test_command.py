"""`assay data`, as a user calls it."""

import gzip
import json
from pathlib import Path

import pytest

from assay_shared.errors import DatasetError, InvalidInput
from assay_trainer.curation.command import app
from assay_trainer.data.importers import FORMATS


def test_a_set_is_imported_shown_and_registered(
    data_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = str(data_folder / "gsm8k"), str(tmp_path / "out")
    app(["import", "gsm8k", path, "--split", "test", "--output", out], standalone_mode=False)
    told = capsys.readouterr().out
    assert "1319 rows read, 1319 in" in told
    assert "1319 for test" in told
    page = tmp_path / "page.html"
    options = ["--num", "2", "--limit", "500", "--html", str(page)]
    app(["show", out, *options], standalone_mode=False)
    told = capsys.readouterr().out
    assert "1319 rows in out" in told
    assert "over 500" in told
    assert page.read_text().startswith("<!doctype html>")
    hashes = str(tmp_path / "x.npz")
    app(["register", out, "--output", hashes], standalone_mode=False)
    assert "1319 of 1319 prompts in" in capsys.readouterr().out


def some_of_mmlu(data_folder: Path, tmp_path: Path) -> str:
    """Write 300 real rows, first those with equal options; return the path."""
    with gzip.open(data_folder / "mmlu" / "test.jsonl.gz", "rt") as file:
        rows = sorted(file, key=lambda line: len({*map(str.casefold, json.loads(line)["choices"])}))
    path = tmp_path / "test.jsonl"
    path.write_text("".join(rows[:300]))
    return str(path)


def test_refused_rows_are_told_with_their_lines(
    data_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = some_of_mmlu(data_folder, tmp_path), str(tmp_path / "out")
    app(["import", "mmlu", path, "--output", out], standalone_mode=False)
    told = capsys.readouterr().out
    assert "left out: 4 refused: choices: another option says the same as the right one" in told
    again = ["import", "mmlu", path, "--output", str(tmp_path / "b"), "--strict"]
    with pytest.raises(DatasetError, match="4 of 300 rows are refused"):
        app(again, standalone_mode=False)


def test_formats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    app(["formats"], standalone_mode=False)
    told = capsys.readouterr().out
    assert [name for name in FORMATS if name not in told] == []
    assert "unverified" in told


def test_unknown_names_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="there is no format x"):
        app(["import", "x", "y", "--output", "z"], standalone_mode=False)
    with pytest.raises(DatasetError, match="there is no file or folder"):
        app(["import", "gsm8k", str(tmp_path / "y"), "--output", "z"], standalone_mode=False)
    with pytest.raises(InvalidInput, match="is not a folder with a tokenizer"):
        app(["show", str(tmp_path), "--tokenizer", str(tmp_path / "t")], standalone_mode=False)
