"""`assay data rejection` on stored evaluations."""

import json
from pathlib import Path

import pyarrow.parquet
import pytest

from assay_shared.errors import Conflict, DatasetError, InvalidInput, RoleError
from assay_shared.types import PromptFormat, Role, Status
from assay_trainer.config import JsonlSource
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.data_commands.command import app
from assay_trainer.demonstrations.rejection.operation import RejectionOrder, make_rejection
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import EvaluatedTask
from assay_trainer.table_source import ImportedSource
from tests.support.evaluations import RIGHT, WRONG, make_answer, sampled, write_evaluation

OUTCOMES: dict[str, list[Status | None]] = {
    "never": [WRONG, WRONG, WRONG, WRONG],
    "once": [WRONG, RIGHT, WRONG, WRONG],
    "half": [RIGHT, WRONG, RIGHT, WRONG],
    "often": [RIGHT, RIGHT, RIGHT, WRONG],
    "always": [RIGHT, RIGHT, RIGHT, RIGHT],
    "of what was scored": [RIGHT, None, None, WRONG],
    "lost": [None, None, None, None],
}


def evaluation(path: Path, **values: object) -> Path:
    options = {"protocol": sampled(4), "role": Role.TRAIN, "sample": make_answer} | values
    return write_evaluation(path, {"train": OUTCOMES}, **options)  # type: ignore[arg-type]


def order(*evaluations: Path, output: Path, **values: object) -> RejectionOrder:
    return RejectionOrder(evaluations, output, **values)  # type: ignore[arg-type]


def test_accepted_answers_are_a_folder_of_demonstrations(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = make_rejection(order(evaluation(tmp_path / "e"), output=out, per_task=2))

    assert found.manifest.count == 8
    solved = {"none": 1, "up_to_25": 1, "up_to_50": 2, "up_to_75": 1, "below_100": 0, "all": 1}
    overall = json.loads((out / "metrics.json").read_text())["overall"]
    assert overall["solved_tasks"] == solved
    assert (overall["num_scored_tasks"], overall["num_tasks"], overall["num_rows"]) == (6, 7, 8)
    assert overall["left_out"] == {"no_score": 6, "not_accepted": 11, "over_per_task": 3}
    assert overall["tasks_with_rows"]["value"] == pytest.approx(5 / 6)

    for source in (
        ImportedSource(kind="imported", path=out),
        JsonlSource(kind="jsonl", path=out / "demonstrations.jsonl"),
    ):
        tasks = open_dataset(source, DatasetPurpose.TRAIN, None).tasks
        assert len(tasks) == 8
        assert all(task.gold and task.gold.startswith("answer") for task in tasks)
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    table = pyarrow.parquet.read_table(out / "rows.parquet").to_pylist()
    for row, stored in zip(rows, table, strict=True):
        assert stored | {"record": json.loads(stored["record"])} == row
        assert row["messages"][-1] == {"role": "assistant", "content": row["response"]}
    policies = json.loads((out / "manifest.json").read_text())["made"]["evaluations"]
    assert policies[0]["policy"]["name"] == "models/e"


def test_two_evaluations_of_one_set_are_read_together(tmp_path: Path) -> None:
    one = evaluation(tmp_path / "a")
    two = evaluation(tmp_path / "b")
    found = make_rejection(order(one, two, output=tmp_path / "out", per_task=9))
    # Both have the same texts.
    assert found.numbers["num_samples"] == 44
    assert found.manifest.count == 11


def test_a_system_message_stands_before_the_prompt(tmp_path: Path) -> None:
    protocol = sampled(4).model_copy(update={"system": "Be brief."})
    out = tmp_path / "out"
    make_rejection(order(evaluation(tmp_path / "e", protocol=protocol), output=out))
    row = json.loads((out / "rows.jsonl").read_text().splitlines()[0])
    assert row["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_raw_prompt_stays_raw(tmp_path: Path) -> None:
    protocol = sampled(4).model_copy(update={"prompt_format": PromptFormat.RAW})
    out = tmp_path / "out"
    make_rejection(order(evaluation(tmp_path / "e", protocol=protocol), output=out))
    row = json.loads((out / "demonstrations.jsonl").read_text().splitlines()[0])
    assert row["prompt_format"] == "raw"


@pytest.mark.parametrize("role", [Role.TEST, Role.VALIDATION])
def test_rows_that_are_not_for_training_are_refused(tmp_path: Path, role: Role) -> None:
    with pytest.raises(RoleError, match="none of the 7 tasks is for training"):
        make_rejection(order(evaluation(tmp_path / "e", role=role), output=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_of_mixed_sets_only_the_rows_for_training_are_taken(tmp_path: Path) -> None:
    path = evaluation(tmp_path / "e")
    file = path / "train" / "tasks.jsonl"
    tasks = [EvaluatedTask.model_validate_json(line) for line in file.read_text().splitlines()]
    tasks[4] = tasks[4].model_copy(update={"role": Role.TEST})
    file.write_text("".join(f"{one.model_dump_json()}\n" for one in tasks))
    found = make_rejection(order(path, output=tmp_path / "out", per_task=4))
    rows = (tmp_path / "out" / "rows.jsonl").read_text()
    assert "always" not in rows
    assert found.numbers["left_out"]["task_not_for_training"] == 1  # type: ignore[index, call-overload]


def test_what_cannot_be_learnt_from_is_an_error(tmp_path: Path) -> None:
    path = evaluation(tmp_path / "e")
    with pytest.raises(DatasetError, match="no answer is left: .* not_accepted"):
        make_rejection(order(path, output=tmp_path / "out", min_score=1.5))
    with pytest.raises(Conflict, match="exists and is not empty"):
        make_rejection(order(path, output=path))
    unfinished = write_evaluation(
        tmp_path / "u", {"train": {"a": [RIGHT]}}, protocol=sampled(4), role=Role.TRAIN
    )
    with pytest.raises(Conflict, match="is not finished"):
        make_rejection(order(unfinished, output=tmp_path / "out"))
    likelihood = write_evaluation(
        tmp_path / "l",
        {"train": {"a": [RIGHT]}},
        protocol=Protocol(kind=ProtocolKind.LIKELIHOOD),
        role=Role.TRAIN,
    )
    with pytest.raises(InvalidInput, match="samples no answers"):
        make_rejection(order(likelihood, output=tmp_path / "out"))
    other = evaluation(tmp_path / "o", prompt="Solve {} otherwise.".format)
    with pytest.raises(Conflict, match="two evaluations have another task never"):
        make_rejection(order(path, other, output=tmp_path / "out"))


def test_a_prompt_of_a_test_set_never_becomes_a_row(tmp_path: Path, data_folder: Path) -> None:
    line = (data_folder / "gsm8k" / "test.jsonl").read_text().splitlines()[0]
    question = json.loads(line)["question"]
    path = evaluation(tmp_path / "e", prompt=lambda id_: question if id_ == "half" else id_)
    make_rejection(order(path, output=tmp_path / "out"))
    assert question[:30] not in (tmp_path / "out" / "rows.jsonl").read_text()
    assert "is for tests only" in (tmp_path / "out" / "refused.jsonl").read_text()


def test_the_command_tells_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["rejection", str(evaluation(tmp_path / "e")), "--output", str(tmp_path / "out")]
    app([*words, "--validation", "40%", "--seed", "3"], standalone_mode=False)
    told = capsys.readouterr().out
    assert "5 answers to 5 of 6 tasks" in told
    roles = json.loads((tmp_path / "out" / "manifest.json").read_text())["roles"]
    assert sum(roles.values()) == 5
    assert roles["validation"] > 0
    lines = (tmp_path / "out" / "demonstrations.jsonl").read_text().splitlines()
    assert len(lines) == roles["train"]
