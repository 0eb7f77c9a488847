"""Proof of rewards through the real services, and runs refused without it."""

import json
from pathlib import Path

import pytest

from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import Task
from tests.integration.conftest import Assay, demo_file
from tests.support.fakes import make_task
from tests.support.runs import QUICK

SUMS = [
    make_task(f"sum-{n}", rubric="math", gold=str(3 * n + 2), tests=(), prompt="How many are left?")
    for n in range(12)
]
#: The reference is a unit's price, the gold answer the whole bill.
WRONG_GOLD = SUMS[0].model_copy(update={"id": "bad", "gold": "99", "reference": "11"})


def write(path: Path, tasks: list[Task]) -> str:
    path.write_text("".join(task.model_dump_json() + "\n" for task in tasks))
    return str(path)


def test_a_dataset_that_proves_itself_is_passed(assay: Assay, tmp_path: Path) -> None:
    shown = assay.run("validate", write(tmp_path / "tasks.jsonl", SUMS))
    assert "0 of 12 tasks have an exception" in shown


def test_a_gold_answer_that_is_not_right_is_found(assay: Assay, tmp_path: Path) -> None:
    tasks = write(tmp_path / "tasks.jsonl", [*SUMS, WRONG_GOLD])
    output = tmp_path / "exceptions.jsonl"
    process = assay.start("validate", tasks, "--output", str(output))
    shown = assay.finish(process)
    assert process.returncode == 1
    assert "1 of 13 tasks have an exception (7.69%)" in shown
    (row,) = (json.loads(line) for line in output.read_text().splitlines())
    assert (row["task_id"], row["kind"], row["reward"]["value"]) == ("bad", "gold", 0.0)
    shown = assay.run("validate", tasks, "--max-bad-share", "0.1")
    assert "7.69%" in shown


def test_a_task_that_its_rubric_cannot_score_is_found(assay: Assay, tmp_path: Path) -> None:
    lacking = make_task("lacking", rubric="choice", tests=())
    process = assay.start("validate", write(tmp_path / "tasks.jsonl", [lacking]))
    assert "has no check for choice" in assay.finish(process)
    assert process.returncode == 1


def test_an_audit_puts_trivial_policies_beside_the_gold(assay: Assay, tmp_path: Path) -> None:
    tasks = [*SUMS, *(SUMS[0].model_copy(update={"id": f"again-{n}"}) for n in range(8))]
    shown = assay.run("audit", write(tmp_path / "tasks.jsonl", tasks))
    rows = {
        row[1].strip(): row
        for row in (line.split("|") for line in shown.split("\n") if "|" in line)
    }
    assert rows["gold"][3].strip().startswith("1.000")
    assert rows["most frequent gold"][4].strip().startswith("45.0%")
    assert rows["empty"][4].strip().startswith("0.0%")


def test_a_run_refuses_data_whose_rewards_cannot_be_trusted(assay: Assay, tmp_path: Path) -> None:
    tasks = write(tmp_path / "tasks.jsonl", [*SUMS, WRONG_GOLD])
    source = f"data.train={{kind: jsonl, path: {tasks}}}"
    folder = tmp_path / "run"
    process = assay.start(
        *("train", demo_file(), *QUICK[1:], source, "sft.mistake_rate=0"),
        *("data.validation.max_bad_share=0.01",),
        *("--folder", str(folder)),
    )
    shown = assay.finish(process)
    assert process.returncode == 2
    assert "data.validation.max_bad_share: 1 of 25 tasks" in shown
    assert "bad first, gold" in shown
    kinds = [(event.kind, event.data.get("stage")) for event in RunFolder(folder).read_events()]
    assert ("stage_started", "validate") in kinds
    assert ("stage_started", "policy") not in kinds


@pytest.mark.parametrize("dataset", ["humaneval", "gsm8k"])
def test_real_data_proves_itself(assay: Assay, data_folder: Path, dataset: str) -> None:
    """Without HumanEval's tests in the program's own process."""
    shown = assay.run("validate", dataset, "--limit", "20", "--max-bad-share", "0.2")
    assert "of 20 tasks have an exception" in shown
