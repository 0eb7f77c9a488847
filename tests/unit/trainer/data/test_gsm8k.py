import asyncio
import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from assay_reward.idempotency import ResponseCache
from assay_reward.instruments import Instruments
from assay_reward.rubric import Rubrics
from assay_reward.scorer import Scorer
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.answers.values.quantity import parse_quantity
from assay_shared.errors import DatasetError, RoleError
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.types import Role, Scored, ScoreRequest, Task
from assay_trainer.config import Gsm8kSource
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from tests.support.fakes import FakeJudge, FakeSandbox

ROW = {"question": "What is 2 + 3?", "answer": "It is 2 + 3 = <<2+3=5>>5.\n#### 5"}


def write(folder: Path, split: str, **changes: object) -> Gsm8kSource:
    (folder / f"{split}.jsonl").write_text(json.dumps(ROW | changes) + "\n")
    return Gsm8kSource(kind="gsm8k", path=folder)


def test_the_file_decides_the_role(tmp_path: Path) -> None:
    write(tmp_path, "train")
    source = write(tmp_path, "test")
    (train,) = open_dataset(source, DatasetPurpose.TRAIN, None).tasks
    (test,) = open_dataset(source, DatasetPurpose.EVALUATE, None).tasks
    assert (train.id, train.role) == ("gsm8k/train/0", Role.TRAIN)
    assert (test.id, test.role) == ("gsm8k/test/0", Role.TEST)
    assert (train.gold, train.reference) == ("It is 2 + 3 = 5.\n#### 5", "5")
    assert train.prompt.startswith("What is 2 + 3?")


def test_the_test_file_cannot_be_opened_for_training(tmp_path: Path) -> None:
    source = write(tmp_path, "test").model_copy(update={"split": "test"})
    with pytest.raises(RoleError, match="gsm8k/test/0 is for test only"):
        open_dataset(source, DatasetPurpose.TRAIN, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question": None}, r"question: .*test.jsonl:1: a text is needed"),
        ({"answer": "5"}, r"answer: .*test.jsonl:1: there is no ####"),
        ({"answer": "#### three"}, r"there is no #### with a number"),
        ({"answer": "#### inf"}, r"there is no #### with a number"),
        ({"answer": "#### 1/0"}, r"there is no #### with a number"),
        ({"answer": "5 ####  "}, r"answer: .*there is no ####"),
    ],
)
def test_a_bad_row_names_its_field(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        open_dataset(write(tmp_path, "test", **changes), DatasetPurpose.EVALUATE, None)


def test_without_a_path_gsm8k_says_where_it_is_looked_for() -> None:
    with pytest.raises(DatasetError, match="ASSAY_DATA"):
        open_dataset(Gsm8kSource(kind="gsm8k"), DatasetPurpose.EVALUATE, None)


async def rewards(tasks: list[Task]) -> list[tuple[Task, Task, float, float]]:
    """By the rubric `math`: each task, its neighbour, and the reward of either's gold answer."""
    symbolic = Symbolic(1.0)
    instruments = Instruments(FakeSandbox(), FakeJudge(), symbolic)
    scorer = Scorer(
        Rubrics(None), instruments, FairLimiter(64, 10_000), ResponseCache(0), CollectorRegistry()
    )

    async def score(task: Task, other: Task) -> tuple[Task, Task, float, float]:
        request = ScoreRequest(task=task, answers=(task.gold or "", other.gold or ""))
        own, others = (await scorer.score(request)).rewards
        assert isinstance(own, Scored)
        assert isinstance(others, Scored)
        return task, other, own.value, others.value

    pairs = zip(tasks, [*tasks[1:], tasks[0]], strict=True)
    return await asyncio.gather(*(score(task, other) for task, other in pairs))


@pytest.mark.parametrize(
    ("purpose", "num_rows"), [(DatasetPurpose.TRAIN, 7473), (DatasetPurpose.EVALUATE, 1319)]
)
async def test_every_worked_answer_is_right_and_no_other_rows_is(
    data_folder: Path, purpose: DatasetPurpose, num_rows: int
) -> None:
    """All 8,792, without an exception; another row's answer is right if its value is equal."""
    tasks = open_dataset(Gsm8kSource(kind="gsm8k"), purpose, data_folder).tasks
    found = await rewards(tasks)
    assert len(found) == num_rows
    assert [task.id for task, _, own, _ in found if own != 1.0] == []
    equal = [
        float(parse_quantity(task.reference or "") == parse_quantity(other.reference or ""))
        for task, other, _, _ in found
    ]
    assert [others for *_, others in found] == equal
    assert sum(equal) < num_rows / 20
