"""The table and the search on published rows, where the truth of each operator is known."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay_reward.workflows.playing.tasks import read_tasks, write_tasks
from assay_shared.types import Task
from tests.conftest import Serve, running_sandbox
from tests.support.known_executor import KnownProblem, known_service

NUM_ROWS = 60
SETS = {
    "gsm8k": ("gsm8k", "test"),
    "commonsenseqa": ("commonsenseqa", "dev"),
    "humaneval": ("HumanEval.jsonl.gz", "test"),
}


def assay(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def imported(name: str, path: Path, split: str, folder: Path, number: int) -> list[Task]:
    """Return tasks of the set at even distances."""
    options = ("--split", split, "--no-near-duplicates", "--output", folder)
    assay("data", "import", name, path, *options)
    found = list(read_tasks(folder / "tasks.jsonl"))
    return found[:: max(1, len(found) // number)][:number]


def known(task: Task) -> KnownProblem:
    right = task.reference or task.gold
    assert right is not None
    if task.tests:
        assert task.gold is not None
        wrong = tuple(f"{task.code_prefix}    return {one}\n" for one in ("None", "'x'", "-9"))
        return KnownProblem(task.prompt, task.gold, wrong, is_code=True)
    if task.rubric == "choice":
        others = tuple(one for one in "ABCDE" if one != right.strip())
        return KnownProblem(task.prompt, right.strip(), others)
    value = right.replace(",", "")
    return KnownProblem(task.prompt, value, tuple(str(int(value) + off) for off in (1, 2, 5, -1)))


def write_evaluation(tasks: list[Task], folder: Path) -> None:
    """As a policy with the better workflow would have written it, in a block."""
    folder.mkdir()
    lines = []
    for task in tasks:
        field = "code" if task.tests else "output"
        text = f"Here:\n```\nfound = Programmer(problem=problem)\nreturn found.{field}\n```"
        lines.append(json.dumps({"task_id": f"workflow/{task.id}", "index": 0, "text": text}))
    (folder / "samples.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.nightly
@pytest.mark.skipif("ASSAY_DATA" not in os.environ, reason="ASSAY_DATA names no folder")
@pytest.mark.timeout(1200)
def test_published_rows_have_a_table_that_covers_the_truth(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Path(os.environ["ASSAY_DATA"])
    shown = imported("gsm8k", data / "gsm8k", "train", tmp_path / "train", 10)
    tasks = [
        task
        for name, (path, split) in SETS.items()
        for task in imported(name, data / path, split, tmp_path / name, NUM_ROWS)
    ]
    write_tasks(shown, tmp_path / "shown.jsonl")
    write_tasks(tasks, tmp_path / "tests.jsonl")
    write_evaluation(tasks, tmp_path / "evaluation")
    with running_sandbox(ASSAY_SANDBOX_MINIMUM_ISOLATION="fallback") as sandbox:
        problems = [known(task) for task in (*shown, *tasks)]
        model = known_service(problems, tmp_path, serve, sandbox.url)
        monkeypatch.setenv("ASSAY_REWARD_URL", model.service)
        assay(
            "workflow", "search", tmp_path / "shown.jsonl", "--output", tmp_path / "search",
            "--rounds", 10,
        )  # fmt: skip
        assay(
            "workflow", "compare", tmp_path / "tests.jsonl", "--output", tmp_path / "table",
            "--votes", 8, "--searched", f"search={tmp_path / 'search'}",
            "--learned", f"policy={tmp_path / 'evaluation'}",
        )  # fmt: skip
    assert "Programmer" in (tmp_path / "search" / "best.txt").read_text()
    sys.stdout.write((tmp_path / "table" / "report.md").read_text())
    report = json.loads((tmp_path / "table" / "report.json").read_text())
    rows = {row["name"]: row for row in report["rows"]}
    assert report["num_tasks"] == 3 * NUM_ROWS
    for name, truth in (("direct", 0.5), ("programmer", 0.9), ("policy", 0.9)):
        accuracy = rows[name]["accuracy"]
        assert accuracy["low"] <= truth <= accuracy["high"], (name, accuracy)
    # At under two answers, a vote is as good as one answer.
    difference = rows["policy"]["against"]["difference"]
    assert rows["policy"]["against"]["num_answers"] < 2
    assert difference["low"] <= 0.4 <= difference["high"]
    assert rows["policy"]["verdict"] == "PASS"
    assert report["losses"] == []
