"""`assay compare` as a person uses it."""

import json
from pathlib import Path

import pytest

from assay_shared.cli import main
from tests.support.evaluations import RIGHT, WRONG, Outcomes, sampled, write_evaluation
from tests.unit.trainer.comparison.test_loading import write_run

FEW = {f"t{i}": [RIGHT if i < 40 else WRONG] for i in range(120)}
MANY = {f"t{i}": [RIGHT if i < 90 else WRONG] for i in range(120)}


def run(*arguments: object) -> int:
    """Return the exit status of the command."""
    try:
        main(["compare", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def phases(tmp_path: Path) -> list[Path]:
    sets: dict[str, dict[str, Outcomes]] = {"mbpp": {**FEW}}
    return [
        write_evaluation(tmp_path / "phase0", sets),
        write_evaluation(tmp_path / "phase1", {"mbpp": {**MANY}, "valid_big": {**MANY}}),
        write_evaluation(tmp_path / "phase2", {"mbpp": {**MANY}}),
    ]


def test_two_phases_are_compared_and_written(
    phases: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = tmp_path / "expected.yaml"
    expected.write_text(
        "mbpp.pass@1: {direction: up, at_least: 20pp}\nvalid_big.pass@1: {direction: up}\n"
    )
    assert run(*phases[:2], "--expect", expected, "--output", tmp_path / "report") == 0
    shown = capsys.readouterr().out
    assert "+41.7 pp" in shown
    assert "BETTER: by pass@1, phase1 is better than phase0 on mbpp." in shown
    assert "MET" in shown
    assert "UNDECIDABLE" in shown
    written = {path.name for path in (tmp_path / "report").iterdir()}
    assert written == {
        "comparison.html",
        "comparison_data.json",
        "comparison_table.md",
        "comparison_tasks.jsonl",
        "summary.txt",
    }


def test_several_arms_are_compared_with_the_baseline(
    phases: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*phases, "--baseline", "phase1", "--output", tmp_path / "report") == 0
    data = json.loads((tmp_path / "report" / "comparison_data.json").read_text())
    assert (data["baseline"], data["arms"]) == ("phase1", ["phase0", "phase2"])
    assert "phase2 cannot be told from phase1" in capsys.readouterr().out


def test_evaluations_of_one_name_are_called_by_their_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, tasks in (("a", FEW), ("b", MANY)):
        write_evaluation(tmp_path / folder / "eval", {"mbpp": {**tasks}})
    assert run("a/eval", "b/eval") == 0
    shown = capsys.readouterr().out
    assert "b/eval is better than a/eval on mbpp" in shown
    assert run("--arm", "old=a/eval", "b/eval") == 0
    shown = capsys.readouterr().out
    assert "old: a/eval\n" in shown
    assert "eval: b/eval\n" in shown


def test_a_report_is_not_written_into_an_evaluation(
    phases: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(phases[0].iterdir())
    assert run(*phases[:2], "--output", phases[0]) == 2
    assert "is not a report" in " ".join(capsys.readouterr().err.split())
    assert sorted(phases[0].iterdir()) == before


def test_seeds_make_an_arm(
    phases: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = write_evaluation(tmp_path / "phase1b", {"mbpp": {**MANY, "t0": [WRONG]}})
    arms = ["--arm", f"base={phases[0]}", "--arm", f"sft={phases[1]},{second}"]
    assert run(*arms, "--metric", "pass@1") == 0
    shown = capsys.readouterr().out
    assert "74.6% (std 0.6%, 2 seeds)" in " ".join(shown.split())
    assert "valid_big is not in every seed of sft" in shown


def test_a_run_alone_is_compared_before_and_after_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write_run(tmp_path / "run")) == 0
    shown = capsys.readouterr().out
    assert (
        "10 of 40 samples of run:before (25.0%) and 10 of 40 samples of run:after (25.0%)" in shown
    )
    assert "BETTER by the scored samples alone" in shown
    assert "run:after cannot be told from run:before on held_out" in shown


def test_different_protocols_are_told_in_the_first_lines(
    phases: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    four: dict[str, Outcomes] = {id_: [one[0]] * 4 for id_, one in MANY.items()}
    other = write_evaluation(tmp_path / "other", {"mbpp": four}, protocol=sampled(4))
    assert run(phases[0], other) == 2
    assert "protocol.temperature: 0.0 in phase0, 1.0 in other" in capsys.readouterr().err
    assert run(phases[0], other, "--allow-different", "--output", tmp_path / "report") == 0
    assert capsys.readouterr().out.startswith("not measured the same way: protocol.kind")
    assert (tmp_path / "report" / "summary.txt").read_text().startswith("CAUTION: ")
    lines = (tmp_path / "report" / "comparison_table.md").read_text().splitlines()
    assert "Not measured the same way" in lines[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "needs two sides"),
        (("--arm", "base"), "does not look like NAME=PATH"),
        (("--arm", "base=a,,b"), "does not look like NAME=PATH"),
        (("nowhere", "there"), "there is no nowhere"),
        (("--metric", "pas@1", "a", "b"), "did you mean pass@1"),
        (("--same-within", "2", "a", "b"), "is not an amount"),
        (("--same-within", "3 tokens", "a", "b"), "not an amount for this metric"),
        (("--expect", "nowhere.yaml", "a", "b"), "there is no file nowhere.yaml"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_tag_lists_the_tags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [
        write_evaluation(tmp_path / name, {"m": {**tasks}}, tags=lambda id_: {"level": "easy"})
        for name, tasks in (("a", FEW), ("b", MANY))
    ]
    assert run(*places, "--by", "nope") == 2
    assert "no task has the tag 'nope' (tags: level)" in " ".join(capsys.readouterr().err.split())


def test_an_unknown_baseline_lists_the_arms(
    phases: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*phases[:2], "--baseline", "phase7") == 2
    assert "phase0, phase1" in capsys.readouterr().err
