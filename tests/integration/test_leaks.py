"""Runs that would be measured on what they are trained on."""

from pathlib import Path

from assay_shared.run_folder import RunFolder
from assay_shared.types import Role
from tests.fakes import make_task
from tests.integration.conftest import Assay, demo_file
from tests.integration.runs import QUICK

TRAINING = [
    make_task(f"sum-{n}", rubric="math", gold=str(n + 2), tests=(), prompt=f"What is {n} plus 2?")
    for n in range(12)
]
EXAM = TRAINING[5].model_copy(
    update={"id": "exam", "role": Role.TEST, "prompt": "what is 5 PLUS 2"}
)


def test_a_run_refuses_held_out_tasks_that_it_trains_on(assay: Assay, tmp_path: Path) -> None:
    train, held_out = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    train.write_text("".join(task.model_dump_json() + "\n" for task in TRAINING))
    held_out.write_text(EXAM.model_dump_json() + "\n")
    folder = tmp_path / "run"
    process = assay.start(
        *("train", demo_file(), *QUICK[1:], f"data.train={{kind: jsonl, path: {train}}}"),
        *(f"data.held_out={{kind: jsonl, path: {held_out}}}", "--folder", str(folder)),
    )
    shown = assay.finish(process)
    assert process.returncode == 2
    assert "data.leaks.max_share: 1 of 1 held-out tasks" in shown
    assert "exam first, exact in sum-5" in shown
    stages = [event.data.get("stage") for event in RunFolder(folder).read_events()]
    assert "leaks" in stages
    assert "validate" not in stages
    assert not (folder / "leaks.json").exists(), "it would be taken for passed"
