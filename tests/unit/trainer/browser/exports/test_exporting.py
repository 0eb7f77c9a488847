"""Exports have the samples of the filter, and nothing that a program would take for other than it
is.
"""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from assay_shared.errors import InvalidInput
from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import ScoredGroup
from assay_trainer.browser.command import export
from tests.support.browser.stored_runs import fill, keep, make_group, make_run

app = typer.Typer()
app.command()(export)
FORMULAS = ("=1+2", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", " =1", "\uff1d1")
NUMBERS = ("-5", "+0.5", "-1.5e-7", "12")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ASSAY_RUNS", str(tmp_path))
    folder = make_run(tmp_path / "a")
    fill(folder, 400)
    return folder


def call(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.stderr
    return result.stdout + result.stderr


def answering(scored: ScoredGroup, *texts: str) -> ScoredGroup:
    """Return the group with other answers."""
    rollouts = tuple(
        one.model_copy(update={"text": text})
        for one, text in zip(scored.group.rollouts, texts, strict=True)
    )
    return scored.model_copy(
        update={"group": scored.group.model_copy(update={"rollouts": rollouts})}
    )


def test_parquet_and_csv_have_the_same_samples(run: RunFolder, tmp_path: Path) -> None:
    assert "400 samples" in call("a", tmp_path / "s.parquet")
    call("a", tmp_path / "s.csv")
    stored = pq.read_table(tmp_path / "s.parquet").to_pylist()
    with (tmp_path / "s.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert len(stored) == len(read) == 400
    for one, other in zip(stored, read, strict=True):
        for name, value in one.items():
            assert other[name] == ("" if value is None else str(value)), name
    assert stored[0]["component.tests"] == 1.0
    assert json.loads(stored[0]["tags"]) == {"domain": "code", "family": "f0"}
    assert {one["kept"] for one in stored} == {"trained", "discarded"}


def test_a_failed_sample_has_no_reward_in_a_table(run: RunFolder, tmp_path: Path) -> None:
    call("a", tmp_path / "s.parquet", "--outcome", "failed:judge")
    (one,) = pq.read_table(tmp_path / "s.parquet").to_pylist()
    assert (one["reward"], one["component.tests"], one["advantage"]) == (None, None, None)
    assert (one["failure_class"], one["failure_attempts"]) == ("judge", 3)


def test_filters_are_those_of_samples(run: RunFolder, tmp_path: Path) -> None:
    assert "48 samples" in call("a", tmp_path / "s.csv", "--kept", "discarded")
    assert "0 samples" in call("a", tmp_path / "s.csv", "--step", "77")
    with pytest.raises(InvalidInput) as refused:
        call("a", tmp_path / "s.csv", "--step", "first")
    assert refused.value.field == "step"


def test_no_answer_is_a_formula_and_no_number_is_changed(run: RunFolder, tmp_path: Path) -> None:
    formulas = (*FORMULAS, "'=1", "'", "''x")
    texts = (*formulas, *NUMBERS, "a\r\n=1+2")
    group = make_group(9, 900, *["accepted"] * len(texts), tags={"=cmd": "=1"})
    keep(run, 9, answering(group, *texts))
    call("a", tmp_path / "s.csv", "--step", "9")
    with (tmp_path / "s.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = [row["answer"] for row in rows]
    assert found == [*(f"'{text}" for text in formulas), *NUMBERS, "a\r\n=1+2"]
    for row in rows:
        assert not any(value.startswith(("=", "@")) for value in row.values())
    call("a", tmp_path / "s.parquet", "--step", "9")
    assert pq.read_table(tmp_path / "s.parquet")["answer"].to_pylist() == list(texts)


def test_a_name_without_a_known_ending_is_refused_before_the_run_is_read(
    run: RunFolder, tmp_path: Path
) -> None:
    for name, told in (
        ("s.txt", "no ending of a known format"),
        ("s", "no ending"),
        ("", "folder"),
        ("none/s.csv", "there is no folder .*none"),
    ):
        with pytest.raises(InvalidInput, match=told) as refused:
            call("a", tmp_path / name)
        assert refused.value.field == "FILE"
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "none").exists()


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(run: RunFolder) -> None:
    with pytest.raises(InvalidInput, match=r"/proc/x\.csv cannot be written") as refused:
        call("a", Path("/proc/x.csv"))
    assert "partial" not in str(refused.value)


def test_a_failed_export_leaves_the_old_file(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("old")
    (tmp_path / ".s.csv.partial").mkdir()
    with pytest.raises(OSError, match="partial"):
        call("a", tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text() == "old"


def test_damaged_lines_are_named_and_lines_of_older_versions_are_read(
    run: RunFolder, tmp_path: Path
) -> None:
    line = json.loads(run.rollouts.read_text().splitlines()[0])
    for reward in line["rewards"]:
        del reward["evidence"], reward["measures"]
    del line["costs"]
    line["step"] = 50
    with run.rollouts.open("a") as file:
        file.write(f"{{broken\n{json.dumps(line)}\n")
    told = call("a", tmp_path / "s.parquet", "--step", "50")
    assert "left out: damaged line rollouts.jsonl:45" in told
    assert "8 samples" in told
    assert pq.read_table(tmp_path / "s.parquet")["evidence"].to_pylist() == ["{}"] * 8
