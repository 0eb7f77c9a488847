"""Runs and samples as text, as a person and a program read them."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import JsonValue
from typer.testing import CliRunner, Result

from assay_shared.errors import InvalidInput, NotFound
from assay_shared.runs.run_folder import RunFolder
from assay_shared.settings.run_file import load_config
from assay_trainer.browser.command import browse, diagnose, export, samples, show, why
from assay_trainer.config import RunConfig
from assay_trainer.service.record import create_run
from tests.support.browser.stored_runs import DEMO, fill, keep, make_group, make_run
from tests.unit.trainer.evaluation.test_report import make_evaluation, make_step

app = typer.Typer()
app.command()(show)
app.command()(samples)
app.command()(browse)
app.command()(diagnose)
app.command()(export)
app.command()(why)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ASSAY_RUNS", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    folder = make_run(tmp_path / "a")
    fill(folder, 400)
    return folder


def call(*arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_run_is_shown_with_its_funnel_and_damaged_lines(run: RunFolder) -> None:
    run.record("step", **make_step(1, num_played=50, num_generated=400).model_dump(mode="json"))
    gain: dict[str, JsonValue] = {"value": 0.25, "low": 0.125, "high": 0.375}
    run.record("run_finished", report="r", gain=gain)
    with run.rollouts.open("a") as file:
        file.write("{broken\n")
    text = call("show", "a").stdout
    assert "gain in pass@1: +25.0 points (+12.5 to +37.5)" in text
    assert "400" in next(line for line in text.splitlines() if "asked" in line)
    assert "stored: 400 samples in 50 groups" in text
    assert "damaged line rollouts.jsonl:45" in text
    found = json.loads(call("show", str(run.path), "--json").stdout)
    assert found["discarded"] == {"no_signal": 48}
    assert found["funnel"][0]["samples"] == 400


def test_samples_are_found_by_filters_and_shown_whole(run: RunFolder) -> None:
    text = call("samples", "a", "--outcome", "failed").stdout
    assert "failed: judge" in text
    assert "1 of 1 matching samples" in text
    hostile = make_group(9, 900, "failed:sandbox", prompt="\x1b[31m[red]markup[/red]\u202e")
    keep(run, 9, hostile)
    text = call("samples", "a", "--step", "9", "--full").stdout
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]markup[/red]" in text
    assert "failed: sandbox in judge, 3 attempts: no judge answered <b>in time</b>" in text
    found = json.loads(call("samples", "a", "--kept", "trained", "--limit", "3", "--json").stdout)
    assert [one["outcome"] for one in found["samples"]] == ["accepted", "wrong_answer", "accepted"]
    assert found["samples"][0]["advantage"] == pytest.approx(0.93, abs=0.01)


def test_a_wrong_name_or_filter_is_refused(run: RunFolder) -> None:
    with pytest.raises(NotFound, match="no run 'b'"):
        call("show", "b")
    with pytest.raises(InvalidInput) as refused:
        call("samples", "a", "--step", "first")
    assert refused.value.field == "step"
    for name, value, right in (
        ("step", "9-3", "7, 3-9"),
        ("outcome", "nope", "accepted, wrong_answer"),
        ("reason", "foo", "no_signal"),
        ("text", "\udcff", "is not UTF-8"),
    ):
        with pytest.raises(InvalidInput, match=right) as refused:
            call("samples", "a", f"--{name}", value)
        assert refused.value.field == name
    with pytest.raises(InvalidInput, match="at most 10000 samples"):
        call("samples", "a", "--limit", "10001")


def test_an_unusable_group_is_named_and_the_others_are_shown(run: RunFolder) -> None:
    line = json.loads(run.rollouts.read_text().splitlines()[0])
    with run.rollouts.open("a") as file:
        for path, value in (
            ("worker", None),
            ("rewards.0.outcome", "odd"),
            ("group.rollouts.1.spans.0.num_tokens", 7),
            ("rewards", line["rewards"][:3]),
        ):
            file.write(json.dumps(changed(line, path, value)) + "\n")
    result = call("samples", "a", "--limit", "1000", "--json")
    assert len(json.loads(result.stdout)["samples"]) == 400
    for text in (result.stderr, call("show", "a").stdout.replace("\n", "")):
        assert "rollouts.jsonl:45 " in text
        assert "worker: Input should be a valid string" in text
        assert "rewards.0.scored.outcome: Input should be" in text
        assert "group.rollouts.1: the spans must add up to the tokens" in text
        assert "rewards: 3 rewards of 8 rollouts" in text


def test_files_that_are_not_regular_are_named_and_never_waited_for(run: RunFolder) -> None:
    run.rollouts.unlink()
    os.mkfifo(run.rollouts)
    (run.path / "rollouts.older.jsonl").symlink_to("/dev/zero")
    run.events.unlink(missing_ok=True)
    run.events.mkdir()
    (run.path / "status.json").unlink(missing_ok=True)
    os.mkfifo(run.path / "status.json")
    text = call("show", "a").stdout
    assert "stored: 48 samples" in text, "of discarded.jsonl"
    for name in ("rollouts.jsonl", "rollouts.older.jsonl", "events.jsonl", "status.json"):
        assert f"{name} cannot be read: it is not a regular file" in text


def test_damaged_events_are_named(run: RunFolder) -> None:
    run.events.write_text('{half\n{"time":1,"kind":"step","data":{"step":"q"}}\n')
    text = " ".join(call("show", "a").stdout.split())
    assert "damaged line events.jsonl:1 (byte 0): it is not an event" in text
    assert "damaged line events.jsonl:2 (byte 6): step: data.step: Input should be" in text


def test_the_mean_times_are_over_groups_and_not_over_steps(run: RunFolder) -> None:
    for step in (8, 9):
        run.record("step", **make_step(step, num_played=8).model_dump(mode="json"))
    for number, step in enumerate((8, 8, 8, 9)):
        times = {"generate_time_s": 6.0 if step == 9 else 2.0, "score_time_s": 0.0}
        keep(run, step, make_group(step, 900 + number, "accepted").model_copy(update=times))
    text = " ".join(call("show", "a").stdout.split())
    assert "A group takes 3.00 s in inference" in text


def test_a_folder_as_output_is_refused_before_the_run_is_read(
    run: RunFolder, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(InvalidInput, match="out is a folder") as refused:
        call("browse", "a", "--output", str(tmp_path / "out"))
    assert refused.value.field == "--output"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "out"]


@pytest.mark.parametrize("name", [None, "status.json", "events.jsonl", "rollouts.jsonl"])
def test_a_folder_that_is_half_a_run_is_named_as_one(
    run: RunFolder, tmp_path: Path, name: str | None
) -> None:
    (tmp_path / "half").mkdir()
    if name is not None:
        (tmp_path / "half" / name).write_text("{")
    for command in (("why", "half"), ("diagnose", "half"), ("export", "half", "x.csv")):
        with pytest.raises(NotFound, match=r"half cannot be read as a run: .* no config\.json"):
            call(*command)


def test_a_run_with_few_steps_or_none_is_not_called_free_of_faults(run: RunFolder) -> None:
    assert call("diagnose", "a").stdout == "nothing can be said: no step is recorded\n"
    whole = Path(__file__).parent / "diagnosis" / "small_run.jsonl"
    events = [json.loads(line) for line in whole.read_text().splitlines()]
    # What the real run does find is planted away.
    fine = {"num_without_signal": 1, "num_groups": 16, "num_played": 20, "publish_s": 0.1}
    for event in events:
        event["data"] |= fine if event["kind"] == "step" else {}
    run.events.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    for name in ("rollouts.jsonl", "discarded.jsonl"):
        (run.path / name).write_text("")
    text = call("diagnose", "a").stdout
    assert re.match(r"little can be said: \d+ of 60 steps of GRPO are recorded", text), text


@pytest.mark.parametrize("command", ["why", "diagnose"])
def test_damaged_lines_are_named_with_what_is_told(run: RunFolder, command: str) -> None:
    with run.rollouts.open("a") as file:
        file.write("{broken\n" * 6)
    result = call(command, "a")
    assert result.stderr.count("damaged line rollouts.jsonl") == 6


def changed(line: Any, path: str, value: object) -> Any:
    """Return a copy of a line with another value at a path."""
    copy = json.loads(json.dumps(line))
    *within, last = [int(one) if one.isdecimal() else one for one in path.split(".")]
    place = copy
    for one in within:
        place = place[one]
    place[last] = value
    return copy


def test_two_runs_are_compared(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    other = create_run(run.path.parent / "b", load_config(RunConfig, DEMO, ("grpo.group_size=3",)))
    for folder, num_right in ((run, 1), (other, 4)):
        folder.evaluation("after").parent.mkdir(exist_ok=True)
        folder.evaluation("after").write_text(make_evaluation("after", num_right).model_dump_json())
        folder.record("step", **make_step(1, reward=num_right / 8).model_dump(mode="json"))
    text = call("show", "a", "b").stdout
    assert "b against a" in text
    assert "+75.0 pp" in text
    assert "BETTER" in text
    row = next(line for line in text.splitlines() if "grpo.group_size" in line)
    assert [cell.strip() for cell in row.split("│")[2:4]] == ["8", "3"]
    assert "0.125" in next(line for line in text.splitlines() if "reward" in line)
    found = json.loads(call("show", "a", "b", "--json").stdout)
    assert found["runs"] == {"a": "unreadable", "b": "unreadable"}, "without status.json"
    assert found["results"]["rows"][0]["difference"]["value"] == pytest.approx(0.75)
    assert found["settings"][0]["name"] == "grpo.group_size"


def test_what_cannot_be_compared_says_what_would_be_right(run: RunFolder) -> None:
    with pytest.raises(InvalidInput, match="2 runs are chosen, 1 of them different") as refused:
        call("show", "a", str(run.path))
    assert refused.value.hint == "choose 2 to 5 different runs"
    with pytest.raises(NotFound, match="no run 'z'"):
        call("show", "a", "z")
    make_run(run.path.parent / "b")
    text = call("show", "a", "b").stdout
    assert "No comparison of results: a has no evaluation 'after' training yet" in text
    assert "All settings are equal." in text
