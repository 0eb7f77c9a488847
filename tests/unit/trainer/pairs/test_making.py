"""The folder that `assay data pairs` writes."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import Conflict, DatasetError, InvalidInput, RoleError
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Message, PromptFormat, Role, Status
from assay_trainer.data.preferences import open_preferences
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import SampleRecord
from assay_trainer.pairs.making import MadePairs, make_pairs
from assay_trainer.pairs.options import ScoreKind
from assay_trainer.pairs.order import ChoiceOrder, PairsOrder, RejectionType, bounds_of
from assay_trainer.table_source import ImportedSource
from tests.support.evaluations import RIGHT, WRONG, make_answer, sampled, write_evaluation

GROUPS = {"p": {"a": (RIGHT, WRONG), "b": (WRONG, RIGHT), "c": (WRONG, WRONG), "d": (RIGHT, None)}}


def evaluation(path: Path, sets: Any = GROUPS, **options: Any) -> Path:
    values: dict[str, Any] = {
        "protocol": sampled(2),
        "role": Role.TRAIN,
        "sample": make_answer,
    } | options
    return write_evaluation(path, sets, **values)


def make(
    output: Path, *evaluations: Path, choice: ChoiceOrder | None = None, **values: Any
) -> MadePairs:
    order = PairsOrder(evaluations, output, choice or ChoiceOrder(), **values)
    return make_pairs(order, ServiceSettings())


def rows(folder: Path, name: str = "preferences.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_the_folder_is_read_by_dpo_and_has_numbers_and_a_page(tmp_path: Path) -> None:
    made = make(tmp_path / "out", evaluation(tmp_path / "e"))

    found = open_preferences(ImportedSource(kind="imported", path=tmp_path / "out"))

    assert [one.task.prompt for one in found] == ["Solve a.", "Solve b."]
    assert found[1].chosen == "answer 1 of b: accepted"
    assert found[1].rejected == "answer 0 of b: wrong_answer"
    row = rows(tmp_path / "out")[1]
    assert row["rejection"] == "wrong_answer"
    assert row["scores"] == {"chosen": 1, "rejected": 0}
    assert row["samples"] == {"evaluation": "e", "set": "p", "chosen": 1, "rejected": 0}
    overall = json.loads((tmp_path / "out" / "metrics.json").read_text())["overall"]
    assert overall == json.loads(json.dumps(made.numbers))
    assert (overall["num_pairs"], overall["num_scored_tasks"], overall["num_tasks"]) == (2, 3, 4)
    assert overall["pairs_by_type"] == {"wrong_answer": 2}
    assert overall["dropped"] == {"all_zero": 1, "failed_sample": 1, "too_few_samples": 1}
    assert overall["chosen_longer"]["value"] == 0
    assert "Solve a." in (tmp_path / "out" / "sample.html").read_text()
    assert "Solve a." in (tmp_path / "out" / "sample.txt").read_text()


def test_a_changed_folder_is_refused(tmp_path: Path) -> None:
    """Swapped labels in a folder that was made: its digest tells."""
    make(tmp_path / "out", evaluation(tmp_path / "e"))
    path = tmp_path / "out" / "preferences.jsonl"
    turned = path.read_text().replace('"chosen"', '"x"').replace('"rejected"', '"chosen"')
    path.write_text(turned.replace('"x"', '"rejected"'))
    with pytest.raises(DatasetError, match="was changed"):
        open_preferences(ImportedSource(kind="imported", path=tmp_path / "out"))


def test_rows_that_are_not_for_training_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RoleError, match="none of 4 tasks is for training"):
        make(tmp_path / "out", evaluation(tmp_path / "test", role=Role.TEST))
    both = (evaluation(tmp_path / "train"), tmp_path / "test")
    made = make(tmp_path / "out", *both)
    assert made.numbers["num_not_for_training"] == 4
    assert made.numbers["num_pairs"] == 2
    refused = [one for one in rows(tmp_path / "out", "refused.jsonl") if one["field"] == "role"]
    assert len(refused) == 4


def test_prompts_of_test_sets_are_left_out(tmp_path: Path, data_folder: Path) -> None:
    lines = (data_folder / "gsm8k" / "test.jsonl").read_text().splitlines()
    planted = json.loads(lines[3])["question"]
    folder = evaluation(tmp_path / "e", prompt=lambda id_: planted if id_ == "a" else f"Say {id_}.")
    made = make(tmp_path / "out", folder)
    assert [one.task_id for one in made.kept] == ["b"]
    assert made.numbers["dropped"]["test_only"] == 1


def hostile(task_id: str, index: int, outcome: Status | None, **values: Any) -> SampleRecord:
    texts = {
        "a": ("<script>alert(1)</script>", "half \ud800 of one"),
        "b": ("</pre><img src=x onerror=alert(1)>", "right\x1b[2J\u202e"),
        "c": ('{"chosen": "x"}\n{"role": "test"}', "second"),
    }
    return make_answer(task_id, index, outcome, text=texts[task_id][index], **values)


def test_hostile_answers_stay_text_and_half_characters_are_left_out(tmp_path: Path) -> None:
    sets = {"p": {"a": (RIGHT, WRONG), "b": (WRONG, RIGHT), "c": (RIGHT, WRONG)}}
    made = make(tmp_path / "out", evaluation(tmp_path / "e", sets, sample=hostile))
    assert [one.task_id for one in made.kept] == ["b", "c"]
    assert made.numbers["dropped"] == {"refused": 1}
    page = (tmp_path / "out" / "sample.html").read_text()
    assert "<img src=x" not in page
    assert "\u202e" not in page
    found = open_preferences(ImportedSource(kind="imported", path=tmp_path / "out"))
    assert found[0].chosen == "right\x1b[2J\u202e"
    assert found[1].chosen == '{"chosen": "x"}\n{"role": "test"}'


def test_a_cap_keeps_that_number_of_a_type_the_same_ones_each_time(tmp_path: Path) -> None:
    sets = {"p": {f"t{n}": (RIGHT, WRONG) for n in range(9)}}
    folder = evaluation(tmp_path / "e", sets)
    choice = ChoiceOrder(caps={RejectionType.WRONG_ANSWER: 4})
    first, again = (make(tmp_path / name, folder, choice=choice) for name in ("one", "two"))
    assert len(first.kept) == 4
    assert first.numbers["dropped"] == {"capped": 5}
    assert [one.task_id for one in first.kept] == [one.task_id for one in again.kept]
    other = make(tmp_path / "three", folder, choice=choice, seed=1)
    assert [one.task_id for one in first.kept] != [one.task_id for one in other.kept]


def test_system_message_history_and_raw_prompts_reach_dpo(tmp_path: Path) -> None:
    said = (Message(role="user", content="Hi"), Message(role="assistant", content="Hello"))
    told = sampled(2).model_copy(update={"system": "Be brief."})
    chat = evaluation(tmp_path / "chat", history=said, protocol=told)
    raw = sampled(2).model_copy(update={"prompt_format": PromptFormat.RAW})
    make(tmp_path / "a", chat)
    make(tmp_path / "b", evaluation(tmp_path / "raw", protocol=raw))
    (one, _), (other, _) = (
        open_preferences(ImportedSource(kind="imported", path=tmp_path / name)) for name in "ab"
    )
    assert [message.content for message in one.task.messages] == [
        "Be brief.",
        "Hi",
        "Hello",
        "Solve a.",
    ]
    assert one.task.prompt_format is PromptFormat.CHAT
    assert other.task.prompt_format is PromptFormat.RAW


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"protocol": Protocol()}, "one answer a task"),
        ({"protocol": sampled(3)}, "is not finished"),
        ({"history": None}, "does not tell the messages"),
        (
            {
                "protocol": Protocol(
                    kind=ProtocolKind.SAMPLED,
                    samples_per_task=2,
                    temperature=1.0,
                    template_arguments={"x": True},
                )
            },
            "template_arguments",
        ),
    ],
)
def test_evaluations_that_cannot_be_used_are_refused(
    tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    sets = {"p": {"a": (RIGHT,)}} if options.get("protocol") == Protocol() else GROUPS
    folder = evaluation(tmp_path / "e", sets, **options)
    with pytest.raises(InvalidInput, match=told):
        make(tmp_path / "out", folder)
    assert not (tmp_path / "out").exists()


def test_nothing_left_is_an_error_that_says_why(tmp_path: Path) -> None:
    folder = evaluation(tmp_path / "e", {"p": {"a": (WRONG, WRONG), "b": (RIGHT, RIGHT)}})
    with pytest.raises(DatasetError, match="no pair is left: 1 all_zero, 1 all_equal"):
        make(tmp_path / "out", folder)
    with pytest.raises(InvalidInput, match="given twice"):
        make(tmp_path / "out", folder, folder)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").touch()
    with pytest.raises(Conflict):
        make(tmp_path / "out", folder)


@pytest.mark.parametrize(
    ("choice", "option"),
    [
        (ChoiceOrder(hallucination=bounds_of(["fathful<0.5"], "")), "--hallucination"),
        (ChoiceOrder(format_violation=bounds_of(["frm<1"], "")), "--format-violation"),
        (ChoiceOrder(confident=bounds_of(["sure>0"], "")), "--confident"),
        (ChoiceOrder(score=ScoreKind.PASS_RATIO), "--score"),
    ],
)
def test_an_option_that_no_sample_can_fulfil_is_refused(
    tmp_path: Path, choice: ChoiceOrder, option: str
) -> None:
    with pytest.raises(InvalidInput, match="no sample has a") as refused:
        make(tmp_path / "out", evaluation(tmp_path / "e"), choice=choice)
    assert refused.value.field == option
    assert not (tmp_path / "out").exists()
