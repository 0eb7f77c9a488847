"""The text of QA samples."""

from pathlib import Path

from assay_shared.types import Role, Status
from assay_trainer.evaluate.reporting.qa_log import write_qa_log
from assay_trainer.evaluation.records.evaluation_record import EvaluatedSet
from assay_trainer.evaluation.records.folder import EvaluationFolder, StoredSet
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord


def test_the_middle_of_a_long_answer_is_marked_as_left_out(tmp_path: Path) -> None:
    sample = SampleRecord(
        task_id="t",
        index=0,
        text="begin" + "x" * 10**6 + "end",
        num_tokens=None,
        truncated=False,
        outcome=Status.WRONG_ANSWER,
        reward=0.0,
    )
    task = EvaluatedTask(id="t", dataset="d", role=Role.TEST, prompt="p")
    facts = EvaluatedSet(name="s", source="s", roles={}, num_tasks=1, digest="0")
    folder = EvaluationFolder(tmp_path)

    write_qa_log(folder, StoredSet(facts, [task], [sample]), 10, 0)

    text = folder.qa_log("s", "txt").read_text()
    assert len(text) < 21_000
    assert "begin" in text
    assert "[... 980008 characters are left out ...]" in text
    assert "xend\n" in text
    assert "sample 0\n" in text  # nobody knows its tokens
    assert sample.text in folder.qa_log("s", "jsonl").read_text()
