"""The script of docs/evaluation.md gives the numbers of metrics.json."""

import json
import random
import subprocess
import sys
from pathlib import Path

from assay_shared.types import Role, Status
from assay_trainer.evaluate.evaluation import write_results
from assay_trainer.evaluation.records.evaluation_record import (
    EvaluatedPolicy,
    EvaluatedSet,
    EvaluationRecord,
)
from assay_trainer.evaluation.records.folder import EvaluationFolder
from assay_trainer.evaluation.records.protocol import Protocol
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord
from tests.support.fakes import FAILURE

ROOT = Path(__file__).parents[4]


def stored(path: Path) -> EvaluationFolder:
    """Return an evaluation of 30 tasks with 4 samples each, some without a score."""
    rng, folder = random.Random(0), EvaluationFolder(path)
    protocol = Protocol(kind="sampled", samples_per_task=4, k=(1, 2, 4), temperature=1.0)
    tasks = [EvaluatedTask(id=f"t{i}", dataset="d", role=Role.TEST, prompt="p") for i in range(30)]
    facts = EvaluatedSet(name="s", source="s", roles={}, num_tasks=30, digest="0", played_s=3.0)
    folder.write_tasks("s", tasks)
    folder.write_record(
        EvaluationRecord(
            name="e",
            policy=EvaluatedPolicy(kind="folder", name="m", digest="d"),
            protocol=protocol,
            protocol_digest=protocol.digest,
            sets=(facts,),
            started=0.0,
        )
    )
    for task in tasks:
        samples = []
        for index in range(4):
            lost = rng.random() < 0.1
            outcome = rng.choice([Status.ACCEPTED, Status.WRONG_ANSWER, Status.SYNTAX_ERROR])
            samples.append(
                SampleRecord(
                    task_id=task.id,
                    index=index,
                    text="x",
                    num_tokens=rng.randrange(1, 100),
                    truncated=False,
                    outcome=None if lost else outcome,
                    reward=None if lost else 1.0,
                    failure=FAILURE if lost else None,
                    pass_ratio=None if lost else float(outcome is Status.ACCEPTED),
                )
            )
        folder.append_samples("s", samples)
    return folder


def test_every_number_of_the_script_is_the_stored_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text()
    script = page.partition("```python\n")[2].partition("```")[0]
    assert 15 <= len(script.splitlines()) <= 30
    (tmp_path / "again.py").write_text(script)
    folder = stored(tmp_path / "e")
    write_results(folder)

    done = subprocess.run(
        [sys.executable, "-I", tmp_path / "again.py", folder.path],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[1] for line in lines] == [
        "pass@1",
        "pass@2",
        "pass@4",
        "tokens",
        "tokens_per_solved",
    ]
    for line in lines:
        assert abs(float(line[2]) - float(line[3])) < 1e-9, line


def test_logs_have_each_outcome_in_its_number_and_are_the_same_again(tmp_path: Path) -> None:
    folder = stored(tmp_path)
    write_results(folder, {"": 10, "s": 3})
    first = folder.qa_log("s", "jsonl").read_text()
    write_results(folder, {"s": 3})

    assert folder.qa_log("s", "jsonl").read_text() == first
    rows = [json.loads(line) for line in first.splitlines()]
    assert [row["outcome"] for row in rows] == [
        name for name in ("success", "wrong_answer", "syntax_error", "failed") for _ in range(3)
    ]
    text = folder.qa_log("s", "txt").read_text()
    assert "no score: sandbox: planted" in text
    assert "verdict accepted, reward 1" in text
