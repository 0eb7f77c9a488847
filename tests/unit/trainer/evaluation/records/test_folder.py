"""The folder of a stored evaluation."""

from pathlib import Path

import pytest

from assay_shared.errors import DatasetError, NotFound
from assay_shared.types import Role, Status
from assay_trainer.evaluation.records.evaluation_record import (
    EvaluatedPolicy,
    EvaluatedSet,
    EvaluationRecord,
)
from assay_trainer.evaluation.records.folder import EvaluationFolder, read_evaluation
from assay_trainer.evaluation.records.protocol import Protocol
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord


def sample(task: str, index: int = 0, text: str = "4") -> SampleRecord:
    return SampleRecord(
        task_id=task,
        index=index,
        text=text,
        num_tokens=3,
        truncated=False,
        outcome=Status.ACCEPTED,
        reward=1.0,
    )


def written(path: Path) -> EvaluationFolder:
    """Return a folder with a set of two tasks and no samples."""
    folder, protocol = EvaluationFolder(path), Protocol()
    sums = EvaluatedSet(
        name="sums", source="sums.jsonl", roles={Role.TEST: 2}, num_tasks=2, digest="0"
    )
    folder.write_record(
        EvaluationRecord(
            name="e",
            policy=EvaluatedPolicy(kind="server", name="http://host model"),
            protocol=protocol,
            protocol_digest=protocol.digest,
            sets=(sums,),
            started=1.0,
        )
    )
    tasks = [
        EvaluatedTask(id=one, dataset="sums", role=Role.TEST, prompt="2 + 2 =")
        for one in ("b", "a")
    ]
    folder.write_tasks("sums", tasks)
    return folder


def test_samples_come_back_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a", 1), sample("a", 0)])
    folder.append_samples("sums", [sample("b")])

    found = read_evaluation(tmp_path)

    assert not found.is_finished
    pairs = [(one.task_id, one.index) for one in found.sets["sums"].samples]
    assert pairs == [("b", 0), ("a", 0), ("a", 1)]
    assert [len(some) for some in found.sets["sums"].by_task.values()] == [1, 2]


def test_a_half_written_line_counts_for_nothing_and_is_removed(tmp_path: Path) -> None:
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a")])
    with folder.samples("sums").open("a") as file:
        file.write('{"task_id": "b", "ind')

    assert len(read_evaluation(tmp_path).sets["sums"].samples) == 1
    folder.append_samples("sums", [sample("b")])
    assert len(read_evaluation(tmp_path).sets["sums"].samples) == 2
    assert folder.samples("sums").read_text().count("\n") == 2


def test_the_last_line_for_a_sample_counts(tmp_path: Path) -> None:
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a", text="lost"), sample("a", text="kept")])

    (found,) = read_evaluation(tmp_path).sets["sums"].samples

    assert found.text == "kept"


def test_texts_with_lone_surrogates_are_kept(tmp_path: Path) -> None:
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a", text="half \ud83d of a sign")])

    (found,) = read_evaluation(tmp_path).sets["sums"].samples

    assert found.text == "half \ud83d of a sign"


def test_what_cannot_be_read_is_named_with_its_line_and_field(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is not an evaluation: it has no evaluation.json"):
        read_evaluation(tmp_path / "none")
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a")])
    whole = folder.samples("sums").read_text()
    folder.samples("sums").write_text(whole + whole.replace('"index": 0', '"index": -1'))

    with pytest.raises(DatasetError, match=r"index: .*samples.jsonl:2: Input should be"):
        read_evaluation(tmp_path)
    folder.samples("sums").write_text(whole.replace('"a"', '"c"'))
    with pytest.raises(DatasetError, match=r"task_id: .*samples.jsonl:1: no task is called 'c'"):
        read_evaluation(tmp_path)
