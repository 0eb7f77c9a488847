from pathlib import Path

import pytest

from assay_shared.errors import DatasetError
from assay_trainer.solutions import read_solutions, score_all
from tests.fakes import FakeRewarder, make_task

TASKS = [make_task("a", gold="A"), make_task("b", gold="B")]


def test_canonical_solutions_are_the_gold_answers() -> None:
    assert read_solutions("canonical", TASKS) == {"a": "A", "b": "B"}
    with pytest.raises(DatasetError, match="1 tasks have no canonical answer, c first"):
        read_solutions("canonical", [*TASKS, make_task("c", gold=None)])


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
        read_solutions(str(path), TASKS)
    with pytest.raises(DatasetError, match="there is no file"):
        read_solutions(str(tmp_path / "none"), TASKS)


async def test_answers_are_scored_each_by_its_task(tmp_path: Path) -> None:
    rewarder = FakeRewarder({"A": 1.0, "B": None})
    board = await score_all(TASKS, {"a": "A", "b": "B"}, rewarder, rubric="math", concurrency=1)
    assert board.num_accepted == 1
    assert board.outcomes() == {"accepted": 1, "failed: sandbox": 1}
    assert {request.rubric for request in rewarder.requests} == {"math"}
    board.write(tmp_path / "out.jsonl")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
