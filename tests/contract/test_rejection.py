"""`assay data rejection` on an evaluation as `assay evaluate` stores it: real reward over HTTP."""

import json
from pathlib import Path

from rich.console import Console

from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Message, Role
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.demonstrations.rejection.operation import RejectionOrder, make_rejection
from assay_trainer.evaluate.job import EvaluationJob, run_job
from assay_trainer.evaluate.options import protocol_of
from assay_trainer.table_source import ImportedSource
from tests.conftest import Serve
from tests.support.fakes import make_task

SAID = (Message(role="user", content="Hello."), Message(role="assistant", content="Hello!"))
TASKS = [
    make_task(
        f"t{n}", role=Role.TRAIN, prompt=f"What is {n} + 3?", rubric="math", reference=str(n + 3)
    ).model_copy(update={"tests": (), "history": SAID})
    for n in range(3)
]
ANSWERS = {
    "t0": ["The sum is 3.", "3", "It is 4."],
    "t1": ["It is 9.", "It is 8.", "It is 7."],
    "t2": ["It is 5.", "it is 5", "As 2 and 3 are added, the sum is 5."],
}


def test_an_evaluation_becomes_demonstrations_with_their_history_and_rubric(
    serve: Serve, tmp_path: Path
) -> None:
    settings = ServiceSettings(reward_url=serve(create_reward(RewardSettings())))
    tasks, answers = tmp_path / "sums.jsonl", tmp_path / "answers.jsonl"
    tasks.write_text("".join(f"{one.model_dump_json()}\n" for one in TASKS))
    rows = [{"task_id": name, "text": text} for name, texts in ANSWERS.items() for text in texts]
    answers.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options = {"kind": "sampled", "samples_per_task": 3, "temperature": 1.0}
    job = EvaluationJob(
        sets=[str(tasks)],
        output=tmp_path / "evaluation",
        protocol=protocol_of(None, options),  # type: ignore[arg-type]
        answers=answers,
        allow_train=True,
    )
    assert run_job(job, settings, Console(quiet=True))

    order = RejectionOrder((tmp_path / "evaluation",), tmp_path / "out", per_task=2)
    found = make_rejection(order)

    source = ImportedSource(kind="imported", path=tmp_path / "out")
    made = open_dataset(source, DatasetPurpose.TRAIN, None).tasks
    assert [(one.id, one.gold) for one in made] == [
        ("sums/t0/0", "3"),
        ("sums/t0/1", "The sum is 3."),
        ("sums/t2/0", "it is 5"),
        ("sums/t2/1", "As 2 and 3 are added, the sum is 5."),
    ]
    assert {(one.rubric, one.history, one.reference) for one in made[:2]} == {("math", SAID, "3")}
    solved = found.numbers["solved_tasks"]
    assert isinstance(solved, dict)
    assert (solved["none"], solved["up_to_75"], solved["all"]) == (1, 1, 1)
    assert found.numbers["left_out"] == {"not_accepted": 4, "same_answer": 1}
