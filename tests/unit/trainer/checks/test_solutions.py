import json
from pathlib import Path

import pytest

from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.types import Answer
from assay_trainer.checks.solutions import read_requests, score_all
from tests.support.fakes import FakeRewarder, make_task

TASKS = [make_task("a", gold="A"), make_task("b", gold="B")]


def test_canonical_solutions_are_the_gold_answers() -> None:
    requests = read_requests("canonical", TASKS, "math")
    assert [(one.task.id, one.answers, one.rubric) for one in requests] == [
        ("a", (Answer(text="A"),), "math"),
        ("b", (Answer(text="B"),), "math"),
    ]
    with pytest.raises(DatasetError, match="1 tasks have no canonical answer, c first"):
        read_requests("canonical", [*TASKS, make_task("c", gold=None)])
    with pytest.raises(InvalidInput, match="whose answers"):
        read_requests("canonical", None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"task_id": "a"}', r"solution: .*s.jsonl:1: Field required"),
        ("[]", r"s.jsonl:1: Input should be an object"),
        ('{"task_id": "z", "solution": "x"}', r"task_id: .*s.jsonl:1: no task is called 'z'"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(DatasetError, match=message):
        read_requests(str(path), TASKS)
    with pytest.raises(DatasetError, match="there is no file"):
        read_requests(str(tmp_path / "none"), TASKS)


def test_without_a_dataset_a_line_is_a_request_to_score(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"task": {"reference": "2"}, "answers": ["2", ["a", "b"]]}\n')
    (request,) = read_requests(str(path), None, "math")
    assert (request.rubric, request.task.reference) == ("math", "2")
    assert request.answers == (Answer(text="2"), Answer(text=("a", "b")))
    path.write_text('{"task": {"reference": "2"}, "answers": "2"}\n')
    with pytest.raises(DatasetError, match=r"answers: .*s.jsonl:1: Input should be a list"):
        read_requests(str(path), None)
    path.write_text("\n")
    with pytest.raises(DatasetError, match="has no answers"):
        read_requests(str(path), None)


async def test_answers_are_scored_each_by_its_task(tmp_path: Path) -> None:
    rewarder = FakeRewarder({"A": 1.0, "B": None})
    board = await score_all(read_requests("canonical", TASKS, "math"), rewarder, concurrency=1)
    assert board.num_accepted == 1
    assert board.num_answers == 2
    assert board.outcomes() == {"accepted": 1, "failed: sandbox": 1}
    board.write(tmp_path / "out.jsonl")
    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (first["task_id"], first["answer"], first["reward"]["value"]) == ("a", 0, 1.0)
    assert second["reward"]["status"] == "failed"
    shown = list(board.lines(5))
    assert shown[0].split() == ["a", "'A'", "1", "accepted"]
    assert shown[1].split() == ["b", "'B'", "none", "failed:", "sandbox", "planted"]
