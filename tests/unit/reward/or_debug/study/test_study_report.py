"""A study stands on comparable evaluations, shows trivial policies, and decides goals."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from assay_reward.or_debug.dataset.tasks import save
from assay_reward.or_debug.evaluate.evaluation import EpisodeRecord
from assay_reward.or_debug.evaluate.run import EvaluationRun, run
from assay_reward.or_debug.evaluate.summary import rate
from assay_reward.or_debug.study.goals import difference
from assay_reward.or_debug.study.loading import read_training
from assay_shared.cli import main
from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import Role
from tests.support.fakes import FAILURE
from tests.support.or_debug.planted import INSTANCE, make_or_task

LEVELS = ("easy", "hard")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two policies on the same two cells, and one on other tasks."""
    home = tmp_path_factory.mktemp("study")
    for folder, num in (("or", 4), ("other", 2)):
        for level in LEVELS:
            tasks = [
                make_or_task(INSTANCE.model_copy(update={"id": f"{level}{at}"})).model_copy(
                    update={"role": Role.TEST, "tags": {"error_type": "A", "difficulty": level}}
                )
                for at in range(num)
            ]
            (home / folder / f"type_A_{level}").mkdir(parents=True)
            save(tasks, home / folder / f"type_A_{level}" / "tasks.jsonl")
    for policy, data, name, baselines in (
        ("submit_at_once", "or", "start", True),
        ("probe", "or", "final", False),
        ("probe", "other", "elsewhere", False),
        ("submit_at_once", "or", "alone", False),
    ):
        asked = EvaluationRun(
            data=home / data, policy=policy, output=home / name, baselines=baselines
        )
        run(asked, Console(quiet=True))
    return home


def make_run(folder: Path, variances: list[float]) -> Path:
    record = RunFolder.create(folder)
    record.config.write_text("{}")
    for number, variance in enumerate(variances, start=1):
        facts = {"reward": 0.1 * number, "grad_norm": 1.0, "reward_variance": variance}
        record.record("step", step=number, num_without_signal=1, num_played=4, **facts)
    return folder


def report(home: Path, output: Path, compared: str = "final", **changes: Any) -> int | str | None:
    policies = [
        {"name": "SFT", "kind": "start", "evaluation": str(home / "start")},
        {"name": "final", "kind": "curriculum", "evaluation": str(home / compared)},
    ]
    values = {"policies": policies, "final": "final"} | changes
    file = output / "study.yaml"
    output.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(values))
    with pytest.raises(SystemExit) as ended:
        main(["or-debug", "report", str(file), "--output", str(output / "out")])
    return ended.value.code


def test_goals_are_decided_by_intervals(evaluated: Path, tmp_path: Path) -> None:
    run_folder = make_run(tmp_path / "run", [0.6, 0.9, 0.7, 0.8, 0.7, 0.9])
    policies = [
        {"name": "SFT", "kind": "start", "evaluation": str(evaluated / "start")},
        {
            "name": "final",
            "kind": "curriculum",
            "evaluation": str(evaluated / "final"),
            "run": str(run_folder),
        },
    ]
    goals = [
        {"metric": "rr@5", "difficulty": "hard", "at_least": 0.3},
        {"metric": "rr@5", "difficulty": "hard", "at_least": 0.6},
        {"metric": "rr@5", "policy": "SFT", "at_least": 0.6},
        {"metric": "rr@5", "over_start": True, "at_least": 0.2},
        {"metric": "reward_variance", "at_least": 0.5},
    ]
    assert report(evaluated, tmp_path, policies=policies, goals=goals) == 0
    written = json.loads((tmp_path / "out" / "study.json").read_text())
    verdicts = [one["verdict"] for one in written["goals"]]
    assert verdicts == ["PASS", "INCONCLUSIVE", "FAIL", "PASS", "PASS"], "4 of 4 is 0.40 to 1"
    text = (tmp_path / "out" / "study.md").read_text()
    assert "| rr@5 of hard tasks: at least 0.6 | final | 1.00 (0.40 to 1.00) | 4 |" in text
    assert "| drop_all_members | trivial | 8 | 0 |" in text
    assert "| final | hard | +1.00 (-0.20 to +1.00) |" in text
    assert "| final | 6 | 0.77 (" in text
    for name in ("sft_against_rl.png", "curriculum.png", "difficulty.png"):
        assert f"({name})" in text
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    assert "ablations.png" not in text


@pytest.mark.parametrize(
    ("compared", "changes", "message"),
    [
        ("elsewhere", {}, "final and SFT cannot be compared: their tasks differ"),
        ("nowhere", {}, "nowhere does not exist"),
        (".", {}, "is not an evaluation"),
        ("start", {}, "policies SFT and final have the same evaluation"),
        ("final", {"final": "third"}, "there is no policy 'third'"),
        ("final", {"goals": [{"metric": "rr@77", "at_least": 1}]}, "no episode of final has it"),
        (
            "final",
            {"goals": [{"metric": "rr@5", "at_least": 0.0}]},
            "every policy reaches it: rr@5 is from 0 to 1",
        ),
        ("final", {"goals": [{"metric": "rr@5", "at_least": 60}]}, "lies between 60 and 1"),
        ("final", {"goals": [{"metric": "rr@5", "at_most": 60}]}, "rr@5 is from 0 to 1"),
        (
            "final",
            {"goals": [{"metric": "reward_variance", "at_least": 1}]},
            "final has no run to read it from",
        ),
        (
            "final",
            {"goals": [{"metric": "rr@5", "difficulty": "medium", "at_least": 0.5}]},
            "among medium tasks",
        ),
        ("final", {"goals": [{"metric": "rr@5"}]}, "give at_least, at_most, or both"),
    ],
)
def test_what_cannot_be_compared_or_decided_is_named(
    evaluated: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    compared: str,
    changes: dict[str, Any],
    message: str,
) -> None:
    assert report(evaluated, tmp_path, compared, **changes) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_start_without_trivial_policies_is_refused(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = [{"name": "SFT", "kind": "start", "evaluation": str(evaluated / "alone")}]
    assert report(evaluated, tmp_path, policies=policies, final="SFT") == 2
    assert "evaluate it without --no-baselines" in capsys.readouterr().err


def test_policies_that_do_the_same_on_few_tasks_are_no_proof_of_an_equal_rate(
    evaluated: Path, tmp_path: Path
) -> None:
    goal = {"metric": "rr@5", "policy": "final", "over_start": True, "at_least": 0.0}
    assert report(evaluated, tmp_path, "alone", goals=[goal]) == 0
    (found,) = json.loads((tmp_path / "out" / "study.json").read_text())["goals"]
    ends = (found["found"]["low"], found["found"]["high"])
    assert ends == pytest.approx((-0.369, 0.369), abs=0.001), "0 of 8 may be 37%"
    assert found["verdict"] == "INCONCLUSIVE"


def played(recovered: int, num_failed: int = 0) -> list[EpisodeRecord]:
    """Return an episode of each of 48 tasks: first the recovered ones, last the failed ones."""
    return [
        EpisodeRecord(
            policy="p",
            task_id=str(at),
            cell="A/easy",
            difficulty="easy",
            sample=0,
            turns=(),
            metrics={}
            if at >= 48 - num_failed
            else {"rr@5": float(at < recovered), "tokens": 5000.0 + at},
            failure=FAILURE if at >= 48 - num_failed else None,
        )
        for at in range(48)
    ]


def test_one_turned_task_of_48_is_no_difference() -> None:
    found = difference(played(20), played(21), "rr@5")
    assert found is not None
    assert found.low < 0 < found.mean < found.high
    better = difference(played(20), played(26), "rr@5")
    assert better is not None
    assert better.low > 0
    tokens = difference(played(20), played(26), "tokens")
    assert tokens is not None
    assert tokens.low < -1 < 1 < tokens.high, "a count has no largest value"


def test_episodes_that_failed_might_have_had_any_result() -> None:
    """A policy whose misses fail would otherwise recover everything it has."""
    all_known, misses_failed = rate(played(20), "rr@5"), rate(played(20, num_failed=28), "rr@5")
    assert all_known is not None
    assert misses_failed is not None
    assert (misses_failed.mean, misses_failed.n) == (1.0, 20)
    assert misses_failed.low == all_known.low
    over = difference(played(20), played(20, num_failed=28), "rr@5")
    assert over is not None
    assert over.low < 0
    steady = rate(played(40, num_failed=1), "rr@5")
    assert steady is not None
    assert steady.low > 0.68, "one failure of 48 takes away a few points"


def test_repeated_steps_count_once_and_a_fall_is_found(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", [0.5] * 8)
    record = RunFolder(folder)
    record.record("resumed", stage="grpo", step=6)
    for number in range(7, 13):
        facts = {"reward": 0.0, "grad_norm": 4.0, "reward_variance": 0.1}
        record.record("step", step=number, num_without_signal=0, num_played=4, **facts)
    found = read_training(folder)
    assert found.num_steps == 12
    assert found.reward_variances == (0.5,) * 6 + (0.1,) * 6
    assert found.largest_fall == pytest.approx(0.4), "from 0.4 over five steps to 0"


def test_a_run_whose_groups_had_no_signal_has_no_steps_and_is_reported(
    evaluated: Path, tmp_path: Path
) -> None:
    run = RunFolder(make_run(tmp_path / "run", []))
    with pytest.raises(DatasetError, match="the run has no GRPO"):
        read_training(run.path)
    run.record("stage_started", stage="grpo")
    run.record("grpo_ended_early", message="all rewards are equal")
    policies = [
        {"name": "SFT", "kind": "start", "evaluation": str(evaluated / "start")},
        {"name": "flat", "evaluation": str(evaluated / "final"), "run": str(run.path)},
    ]
    goal = {"metric": "reward_variance", "at_least": 0.5}
    assert report(evaluated, tmp_path, policies=policies, final="flat", goals=[goal]) == 0
    (found,) = json.loads((tmp_path / "out" / "study.json").read_text())["goals"]
    assert (found["found"], found["verdict"]) == (None, "INCONCLUSIVE")
    assert "| flat | 0 |  | 0 of 0 |  |  |" in (tmp_path / "out" / "study.md").read_text()


def test_names_of_any_characters_are_shown_as_they_are(evaluated: Path, tmp_path: Path) -> None:
    hostile = "$\\frac{$ | <script>\nb"
    policies = [
        {"name": "SFT", "kind": "start", "evaluation": str(evaluated / "start")},
        {"name": hostile, "kind": "other", "evaluation": str(evaluated / "final")},
    ]
    changes: dict[str, Any] = {"policies": policies, "final": hostile, "name": "a\n# b"}
    assert report(evaluated, tmp_path, **changes) in (0, 1, None)

    text = (tmp_path / "out" / "study.md").read_text()
    assert "# a # b" in text
    assert "<script>" not in text
    rows = [line for line in text.splitlines() if "frac" in line]
    assert rows
    assert all(r"$\frac{$ \| &lt;script> b" in line for line in rows)
