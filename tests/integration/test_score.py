"""HumanEval's own solutions through reward and sandbox: the real file, real processes."""

import json
from pathlib import Path

import pytest

from assay_shared.types import Task
from assay_trainer.config import HumanEvalSource
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from tests.integration.conftest import Assay


@pytest.fixture
def tasks(data_folder: Path) -> list[Task]:
    return open_dataset(
        HumanEvalSource(kind="humaneval"), DatasetPurpose.EVALUATE, data_folder
    ).tasks


def returning_none(solution: str) -> str:
    """The solution with its last line replaced by `return None`, at the same depth."""
    *lines, last = solution.rstrip().split("\n")
    indent = last[: len(last) - len(last.lstrip())]
    return "\n".join([*lines, f"{indent}return None\n"])


def write(path: Path, solutions: dict[str, str]) -> str:
    lines = (json.dumps({"task_id": k, "solution": v}) + "\n" for k, v in solutions.items())
    path.write_text("".join(lines))
    return str(path)


def test_all_canonical_solutions_are_accepted(assay: Assay, tasks: list[Task]) -> None:
    shown = assay.run("score", "--dataset", "humaneval", "--answers", "canonical")
    assert "accepted 164 of 164" in shown


@pytest.mark.parametrize("mutation", ["return None", "pass"])
def test_no_broken_solution_is_accepted(
    assay: Assay, tasks: list[Task], tmp_path: Path, mutation: str
) -> None:
    broken = {
        task.id: returning_none(task.gold or "") if mutation == "return None" else "    pass\n"
        for task in tasks
    }
    path = write(tmp_path / "solutions.jsonl", broken)
    output = tmp_path / "rewards.jsonl"
    shown = assay.run("score", "--dataset", "humaneval", "--answers", path, "--output", str(output))
    assert "accepted 0 of 164" in shown
    rewards = [json.loads(line)["reward"] for line in output.read_text().splitlines()]
    assert {reward["status"] for reward in rewards} == {"scored"}, "wrong, and not unknown"
    assert {reward["value"] for reward in rewards} == {0.0}
