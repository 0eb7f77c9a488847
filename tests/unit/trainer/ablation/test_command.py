"""`assay ablate` as a person uses it, without services."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.cli import main
from assay_trainer.ablation.ablation_folder import AblationFolder
from assay_trainer.ablation.arms import read_ablation
from assay_trainer.ablation.report.writing import write_report
from assay_trainer.curriculum.winner import read_winner
from tests.unit.trainer.ablation.report.test_writing import make_report
from tests.unit.trainer.ablation.test_arms import ARMS, RUN


def run(*arguments: object) -> int:
    """Return the exit status of the command."""
    try:
        main(["ablate", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ablation.yaml"
    path.write_text(yaml.safe_dump({"run": RUN, "arms": ARMS, "seeds": [1, 2]}, sort_keys=False))
    return path


def test_a_plan_tells_arms_runs_and_what_few_seeds_decide(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "--plan") == 0
    told = capsys.readouterr().out
    assert "grpo.kl_weight" in told
    assert "7 runs" in told
    assert "every comparison is INCONCLUSIVE" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "exactly one of an ablation file"),
        (("x.yaml", "--resume", "y"), "exactly one of an ablation file"),
        (("--resume", "y", "--plan"), "--plan goes with"),
        (("--resume", "nowhere"), "not an ablation's folder"),
        (("--winner", "nowhere"), "not an ablation's folder"),
        (("nowhere.yaml",), "no file"),
    ],
)
def test_a_wrong_command_is_refused(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) != 0
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sets", "field"),
    [
        ({"sums": {"kind": "jsonl", "path": "gone.jsonl"}}, "evaluation.sets.sums.path"),
        ({}, "data.held_out.path"),
    ],
)
def test_an_error_names_fields_of_the_ablation_file(
    tmp_path: Path, sets: dict[str, Any], field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = RUN["data"] | ({} if sets else {"held_out": {"kind": "jsonl", "path": "gone.jsonl"}})
    evaluation = {"metrics": ["pass@1"], "sets": sets, "curve_every": 10}
    path = tmp_path / "ablation.yaml"
    whole = {"run": RUN | {"data": data}, "arms": ARMS, "seeds": [1], "evaluation": evaluation}
    path.write_text(yaml.safe_dump(whole, sort_keys=False))
    assert run(path, "--folder", tmp_path / "new") == 2
    assert f" {field}: there is no file gone.jsonl" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_winner_is_printed_and_written_for_a_curriculum(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = AblationFolder.create(tmp_path / "done", read_ablation(file))
    (folder.start / "models" / "sft").mkdir(parents=True)
    report = make_report(winner="kl", curves=[], table=[], changes=[], arms=[], controls=[])
    write_report(report, folder)
    assert run("--winner", folder.path) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((folder.path / "winner.json").read_text())
    assert (told["arm"], told["overrides"]) == ("kl", {"grpo.kl_weight": 0.1})
    assert told["start_folder"] == "done-start/models/sft"
    assert set(told["arms"]) == set(ARMS)
    assert read_winner(folder.path).arm == "kl"


def test_a_folder_keeps_its_plan(file: Path, tmp_path: Path) -> None:
    plan = read_ablation(file)
    kept = AblationFolder.create(tmp_path / "kept", plan).plan()
    assert kept.arms == plan.arms
    assert kept.values == plan.values


def _goal(values: dict[str, Any]) -> None:
    values["config"]["goals"] = [{"metric": "pass@1", "arm": "kl", "at_least": 0.0}]


def _arm(values: dict[str, Any]) -> None:
    values["config"]["arms"]["kl"]["grpo.kl_weight"] = 0.2


def _order(values: dict[str, Any]) -> None:
    arms = values["config"]["arms"]
    arms["first"] = arms.pop("first")


def _base(values: dict[str, Any]) -> None:
    del values["base"]["grpo"]["clip_high"]


@pytest.mark.parametrize("command", ["--resume", "--winner"])
@pytest.mark.parametrize(
    ("change", "field"),
    [
        (_goal, "config.goals"),
        (_arm, "config.arms.kl.grpo.kl_weight"),
        (_order, "config.arms"),
        (_base, "base.grpo.clip_high"),
    ],
)
def test_a_plan_that_was_changed_after_the_ablation_began_is_refused(
    file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    change: Callable[[dict[str, Any]], None],
    field: str,
) -> None:
    folder = AblationFolder.create(tmp_path / "kept", read_ablation(file))
    write_report(make_report(), folder)
    path = folder.path / "ablation.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values))
    assert folder.plan().arms, "a file of another layout has the same fields"
    change(values)
    path.write_text(json.dumps(values))
    assert run(command, folder.path) == 2
    assert f"{field}: {path} was changed after the ablation began" in capsys.readouterr().err
    del values["digests"]
    path.write_text(json.dumps(values))
    assert run(command, folder.path) == 2, "nothing shows that it was not changed"


@pytest.mark.parametrize("options", [("--plan",), ()])
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (("overrides={grpo.max_staleness: 0}", "arms.kl={grpo.clip_high: 0.4}"), "arms.first: gr"),
        (("evaluation.metrics=[or_faithful]",), "no task of the held-out sets has or_faithful"),
        (("evaluation.metrics=[pass@4]",), "pass@4 needs 4 samples"),
    ],
)
def test_what_cannot_be_decided_is_refused_before_anything_is_trained(
    file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    changes: tuple[str, ...],
    told: str,
) -> None:
    folder = tmp_path / "refused"
    assert run(file, *changes, *options, "--folder", folder) != 0
    assert told in capsys.readouterr().err
    assert not folder.exists()
