"""Shapes without real rows at hand, and rows that are refused with their field."""

import json
from pathlib import Path

import pytest

from assay_shared.errors import DatasetError
from assay_shared.types import CallCase, StdinCase, Task
from assay_trainer.data.importers import FORMATS
from assay_trainer.data.importers.format import OtherSplit
from tests.support.trainer_imports import examples_of, read_all

CHOICES = {"label": ["A", "B"], "text": ["bank", "library"]}


def task_of(name: str, row: object, split: str, stem: str = "set") -> Task:
    """Return the only task of a row."""
    (found,) = examples_of(name, row, split, stem)
    return found.task


def test_a_row_of_deepmind_has_all_its_tests_and_its_shortest_python() -> None:
    row = {
        "name": "1_A",
        "description": "Add.",
        "difficulty": 7,
        "public_tests": {"input": ["1 2\n"], "output": ["3\n"]},
        "private_tests": {"input": ["2 2\n"], "output": ["4\n"]},
        "generated_tests": {"input": [], "output": []},
        "solutions": {"language": [2, 3, 3], "solution": ["int main", "print(1234)", "print(1)"]},
    }
    task = task_of("code_contests", row, "train")
    stdins = [one.stdin for one in task.tests if isinstance(one, StdinCase)]
    assert stdins == ["1 2\n", "2 2\n"]
    assert task.gold == "```python\nprint(1)\n```"


def test_apps_calls_functions_or_feeds_standard_input() -> None:
    row = {
        "problem_id": 4,
        "question": "Add.",
        "solutions": json.dumps(["def add(a, b):\n    return a + b"]),
        "input_output": json.dumps({"fn_name": "add", "inputs": [[1, 2]], "outputs": [[3]]}),
        "difficulty": "interview",
        "starter_code": "def add(a, b):",
    }
    assert task_of("apps", row, "train").tests == (
        CallCase(function="add", args=(1, 2), expected=3),
    )
    row["input_output"] = json.dumps({"inputs": [["1", "2"]], "outputs": ["3\n"]})
    (case,) = task_of("apps", row, "train").tests
    assert isinstance(case, StdinCase)
    assert (case.stdin, case.expected_stdout) == ("1\n2", "3\n")


def test_the_answer_of_math_is_the_last_box() -> None:
    row = {"problem": "2 + 2?", "solution": "Not $\\boxed{5}$ but $\\boxed{4}$.", "level": "1"}
    task = task_of("math", row, "train")
    assert (task.reference, task.gold) == (
        "4",
        f"{row['solution']}\n\nThe answer is $\\boxed{{4}}$.",
    )


def test_commonsenseqa_and_arc_of_the_hub() -> None:
    row = {"id": "x", "question": "Where?", "choices": CHOICES, "answerKey": "B"}
    assert task_of("commonsenseqa", row, "train").reference == "B"
    assert task_of("arc", row, "train").reference == "B"
    nested = {
        "stem": "Where?",
        "choices": [{"label": "1", "text": "a"}, {"label": "2", "text": "b"}],
    }
    row = {"id": "x", "question": nested, "answerKey": "2"}
    assert task_of("arc", row, "train").gold == "Answer: B"


def test_mmlu_of_csv_files_takes_the_subject_from_the_name(tmp_path: Path) -> None:
    path = tmp_path / "college_biology_test.csv"
    path.write_text('"Which, if any?",None,"a\nb",TRUE,F,C\n')
    ((one,), refused) = read_all("mmlu", path, "test")
    assert not refused
    assert one.task.tags["family"] == "college_biology"
    assert one.task.checks["choice"] == {"options": ["None", "a\nb", "TRUE", "F"], "answer": "C"}


def test_bbh_files_are_objects_with_examples(tmp_path: Path) -> None:
    path = tmp_path / "navigate.json"
    path.write_text(json.dumps({"canary": "x", "examples": [{"input": "Go?", "target": "Yes"}]}))
    ((one,), _) = read_all("bbh", path, "test")
    assert one.task.tags["family"] == "navigate"


def test_keywords_without_a_value_are_no_keywords() -> None:
    row = {
        "key": 1,
        "prompt": "Write.",
        "instruction_id_list": ["length_constraints:number_words"],
        "kwargs": [{"num_words": 3, "relation": "at least", "keywords": None}],
    }
    check = task_of("ifeval", row, "test").checks["constraints"]
    assert isinstance(check, dict)
    assert check["kwargs"] == [{"num_words": 3, "relation": "at least"}]


def test_sharegpt_and_system_messages_are_a_history() -> None:
    row = {
        "conversations": [
            {"from": "system", "value": "Be short."},
            {"from": "human", "value": "Hi"},
            {"from": "gpt", "value": "Yes?"},
            {"from": "human", "value": "Bye"},
            {"from": "gpt", "value": "Bye."},
        ]
    }
    task = task_of("messages", row, "train")
    assert [one.role for one in task.messages] == ["system", "user", "assistant", "user"]
    assert (task.prompt, task.gold) == ("Bye", "Bye.")


def test_chats_of_both_answers_share_their_prompt() -> None:
    asked = {"role": "user", "content": "Hi"}
    row = {
        "chosen": [asked, {"role": "assistant", "content": "Hello."}],
        "rejected": [asked, {"role": "assistant", "content": "No."}],
    }
    (one,) = examples_of("preference", row, "train")
    assert (one.task.prompt, one.task.gold, one.rejected) == ("Hi", "Hello.", "No.")


def test_reasoning_gym_numbers_go_into_a_box() -> None:
    row = {"question": "1+1?", "answer": "2", "metadata": {"source_dataset": "basic_arithmetic"}}
    task = task_of("reasoning_gym", row, "train")
    assert (task.rubric, task.tags["family"]) == ("math", "basic_arithmetic")
    assert task_of("reasoning_gym", row | {"answer": "yes"}, "train").rubric == "qa.verified"


BAD = [
    ("gsm8k", {"question": "2?", "answer": "5"}, "train", "answer", "####"),
    ("mbpp", {"task_id": 975}, "train", "task_id", "not an id"),
    ("mbpp", {"task_id": "x"}, "train", "task_id", "whole number"),
    (
        "mmlu",
        {"subject": "a", "question": "b", "choices": ["c"], "answer": 0},
        "test",
        "choices",
        "2 to",
    ),
    (
        "mmlu",
        {"subject": "a", "question": "b", "choices": ["c", "d"], "answer": 2},
        "test",
        "answer",
        "no option",
    ),
    (
        "arc",
        {"id": "x", "question": "b", "choices": CHOICES, "answerKey": "E"},
        "test",
        "answerKey",
        "no option",
    ),
    ("hotpotqa", {"question": "a", "answer": "b", "context": [["t"]]}, "dev", "context.0", "title"),
    (
        "ifeval",
        {"key": 1, "prompt": "a", "instruction_id_list": ["b"], "kwargs": []},
        "test",
        "kwargs",
        "0",
    ),
    (
        "messages",
        {"messages": [{"role": "tool", "content": "a"}]},
        "train",
        "messages.0.role",
        "tool",
    ),
    ("messages", {"messages": [{"role": "user", "content": "a"}]}, "train", "messages", "last"),
    ("alpaca", {"instruction": "a", "input": "", "output": " "}, "train", "output", "empty"),
    ("preference", {"prompt": "a", "chosen": "b", "rejected": "b"}, "train", "rejected", "differ"),
    ("apps", {"problem_id": 1, "input_output": "{"}, "train", "input_output", "not JSON"),
    ("humaneval", {"task_id": "HumanEval/0"}, "test", "prompt", "missing"),
    ("aime", {"problem": "a", "answer": None}, "amc", "answer", "null"),
    (
        "tasks",
        {"id": "a", "dataset": "b", "role": "x", "prompt": "c", "rubric": "d"},
        "all",
        "role",
        "Input should be",
    ),
]


@pytest.mark.parametrize(
    ("name", "row", "split", "field", "message"), BAD, ids=[f"{b[0]}-{b[3]}" for b in BAD]
)
def test_a_bad_row_names_its_field(
    name: str, row: object, split: str, field: str, message: str
) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        examples_of(name, row, split)
    assert caught.value.field == field


def test_a_row_of_another_split_is_told_apart_from_a_bad_one() -> None:
    with pytest.raises(OtherSplit):
        examples_of("mbpp", {"task_id": 11}, "train")


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_takes_rows_that_are_not_objects(name: str) -> None:
    for value in (None, 3, "text", ["list"]):
        with pytest.raises(DatasetError, match="must be an object"):
            examples_of(name, value, next(iter(FORMATS[name].roles)))
    with pytest.raises(DatasetError):
        examples_of(name, {}, next(iter(FORMATS[name].roles)))
