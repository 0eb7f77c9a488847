import gzip
import json
from pathlib import Path

import pytest

from assay_shared.errors import DatasetError, RoleError
from assay_shared.types import CallCase, Message, Role
from assay_trainer.config import GeneratedSource, HumanEvalSource, JsonlSource
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.data.synthetic import DOMAINS, generate
from assay_trainer.data.tokenization import prompt_token_ids
from assay_trainer.learner.network.model import train_tokenizer
from tests.support.fakes import make_task
from tests.support.policies import TEXTS

SHARES = {"code": 0.7, "arithmetic": 0.15, "lookup": 0.15}


def write(folder: Path, *lines: str) -> JsonlSource:
    path = folder / "tasks.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return JsonlSource(kind="jsonl", path=path)


def row(**changes: object) -> str:
    return json.dumps(json.loads(make_task().model_dump_json()) | changes)


def test_tasks_survive_the_file(tmp_path: Path) -> None:
    task = make_task(tests=(CallCase(function="f", args=([1], {"a": None}), expected=True),))
    source = write(tmp_path, task.model_dump_json(), "")
    assert open_dataset(source, DatasetPurpose.TRAIN, None).tasks == [task]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([row(), "{"], r"tasks.jsonl:2: not JSON"),
        ([row(), row(prompt="\ud800")], r"prompt: .*tasks.jsonl:2: must be Unicode text"),
        ([row(id="x" * 1001)], r"id: .*tasks.jsonl:1: has at most 1000 characters"),
        (
            [row(), row(id="b", rubrik="x")],
            r"rubrik: .*tasks.jsonl:2: a task has no field 'rubrik' \(did you mean rubric\?\)$",
        ),
        ([row(role="exam")], r"role: .*tasks.jsonl:1: Input should be 'train', 'validation' or"),
        ([json.dumps({"id": "a"})], r"dataset: .*tasks.jsonl:1: .* the row has no 'dataset'"),
        ([row(), row()], r"id: .*tasks.jsonl:2: 't' stands in line 1 already"),
        (["[]"], r"tasks.jsonl:1: "),
        ([], "jsonl has no tasks"),
    ],
)
def test_a_bad_row_is_refused_with_file_line_and_field(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        open_dataset(write(tmp_path, *lines), DatasetPurpose.EVALUATE, None)


@pytest.mark.parametrize("row", [{"messages": []}, {"id": "1", "question": "x"}, {"prompt": "x"}])
def test_a_row_of_another_form_is_told_what_reads_it(tmp_path: Path, row: object) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(DatasetError) as caught:
        open_dataset(JsonlSource(kind="jsonl", path=path), DatasetPurpose.TRAIN, None)
    assert "`kind: table` takes rows of other forms" in (caught.value.hint or "")
    assert caught.value.field in ("messages", "question", "id")


def test_a_run_takes_half_characters_to_set_them_aside_but_not_in_an_id(tmp_path: Path) -> None:
    source = write(tmp_path, row(prompt="\ud800"))
    opened = open_dataset(source, DatasetPurpose.EVALUATE, None, takes_half_characters=True)
    assert [task.prompt for task in opened.tasks] == ["\ud800"]
    with pytest.raises(DatasetError, match=r"id: .*must be Unicode text"):
        open_dataset(
            write(tmp_path, row(id="\ud800")),
            DatasetPurpose.EVALUATE,
            None,
            takes_half_characters=True,
        )


@pytest.mark.parametrize("field", ["id", "dataset", "role", "prompt", "rubric"])
def test_a_row_says_what_a_request_to_score_may_leave_out(tmp_path: Path, field: str) -> None:
    line = json.loads(row())
    del line[field]
    with pytest.raises(DatasetError, match=f"{field}: .*tasks.jsonl:1: .*no '{field}'"):
        open_dataset(write(tmp_path, json.dumps(line)), DatasetPurpose.EVALUATE, None)


def test_a_missing_file_and_a_broken_archive_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"there is no file .*none\.jsonl"):
        open_dataset(
            JsonlSource(kind="jsonl", path=tmp_path / "none.jsonl"), DatasetPurpose.TRAIN, None
        )
    broken = tmp_path / "tasks.jsonl.gz"
    broken.write_bytes(b"not gzip")
    with pytest.raises(DatasetError, match=r"tasks\.jsonl\.gz cannot be read"):
        open_dataset(JsonlSource(kind="jsonl", path=broken), DatasetPurpose.TRAIN, None)


@pytest.mark.promise("evaluation is honest: test data cannot be trained on, and pass@k is unbiased")
@pytest.mark.rule("test data cannot be trained on")
@pytest.mark.parametrize("role", [Role.TEST, Role.VALIDATION])
def test_tasks_that_are_not_for_training_cannot_be_trained_on(tmp_path: Path, role: Role) -> None:
    source = write(tmp_path, row(), row(id="exam", role=role))
    with pytest.raises(RoleError, match=f"task exam is for {role} only"):
        open_dataset(source, DatasetPurpose.TRAIN, None)
    assert len(open_dataset(source, DatasetPurpose.EVALUATE, None).tasks) == 2


def human_eval_file(folder: Path, **changes: object) -> HumanEvalSource:
    fields = {
        "task_id": "HumanEval/0",
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "canonical_solution": "    return x\n",
        "test": "def check(candidate):\n    assert candidate(1) == 1\n",
    } | changes
    path = folder / "HumanEval.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps(fields) + "\n")
    return HumanEvalSource(kind="humaneval", path=path)


def test_human_eval_is_test_only(tmp_path: Path) -> None:
    source = human_eval_file(tmp_path)
    (task,) = open_dataset(source, DatasetPurpose.EVALUATE, None).tasks
    assert (task.role, task.gold, task.code_prefix) == (Role.TEST, "    return x\n", "def f(x):\n")
    with pytest.raises(RoleError, match="HumanEval/0 is for test only"):
        open_dataset(source, DatasetPurpose.TRAIN, None)


def test_a_bad_human_eval_row_names_its_field(tmp_path: Path) -> None:
    source = human_eval_file(tmp_path, entry_point=None)
    with pytest.raises(DatasetError, match=r"entry_point: .*gz:1: Input should be a valid string"):
        open_dataset(source, DatasetPurpose.EVALUATE, None)


def test_without_a_path_human_eval_says_where_it_is_looked_for() -> None:
    with pytest.raises(DatasetError, match="ASSAY_DATA"):
        open_dataset(HumanEvalSource(kind="humaneval"), DatasetPurpose.EVALUATE, None)


def test_the_real_human_eval_opens(data_folder: Path) -> None:
    tasks = open_dataset(
        HumanEvalSource(kind="humaneval"), DatasetPurpose.EVALUATE, data_folder
    ).tasks
    assert len(tasks) == 164


# The generated set


@pytest.mark.slow
def test_no_task_is_in_both_sets_whatever_the_seeds() -> None:
    held_out = {g.task.prompt for seed in range(3) for g in generate(300, seed, SHARES, Role.TEST)}
    train = {g.task.prompt for seed in range(3) for g in generate(1500, seed, SHARES, Role.TRAIN)}
    assert not held_out & train


def test_the_demos_held_out_set_is_large_enough_and_distinct() -> None:
    tasks = [g.task for g in generate(240, 0, SHARES, Role.TEST)]
    assert len({task.prompt for task in tasks}) == len({task.id for task in tasks}) == 240
    assert {task.tags["domain"] for task in tasks} == set(SHARES)
    assert all(task.role is Role.TEST for task in tasks)


def test_equal_seeds_give_equal_tasks_and_others_do_not() -> None:
    first, again, other = (generate(50, seed, SHARES, Role.TRAIN) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_gold_passes_its_tests_and_every_mistake_fails_one() -> None:
    for one in generate(400, 0, {"code": 1.0}, Role.TRAIN):
        assert passes(one.gold, one.task.tests)
        for kind, wrong in one.mistakes.items():
            assert not passes(wrong, one.task.tests), (kind, wrong)


def passes(program: str, tests: tuple[object, ...]) -> bool:
    namespace: dict[str, object] = {}
    exec(program, namespace)
    for case in tests:
        assert isinstance(case, CallCase)
        function = namespace[case.function]
        assert callable(function)
        if function(*case.args) != case.expected:
            return False
    return True


def test_every_family_has_mistakes_and_answers_differ_from_them() -> None:
    for domain, (families, _) in DOMAINS.items():
        seen = {g.task.tags["family"]: g for g in generate(200, 0, {domain: 1.0}, Role.TRAIN)}
        assert set(seen) == set(families)
        for one in seen.values():
            assert one.mistakes
            assert one.gold not in one.mistakes.values()


def test_a_domain_that_is_used_up_says_so() -> None:
    with pytest.raises(DatasetError, match=r"there are only \d+ train tasks of arithmetic"):
        generate(100_000, 0, {"arithmetic": 1.0}, Role.TRAIN)


def test_demonstrations_carry_their_share_of_mistakes() -> None:
    source = GeneratedSource(kind="generated", num_tasks=300)
    dataset = open_dataset(source, DatasetPurpose.TRAIN, None)
    shown = dataset.demonstrations(per_task=4, mistake_rate=0.4, seed=1)
    assert len(shown) == 1200
    wrong = [one for one in shown if one.mistake]
    assert 0.35 < len(wrong) / len(shown) < 0.45
    assert all(one.answer != one.task.gold for one in wrong)
    assert dataset.demonstrations(4, 0.4, 1) == shown
    assert not [one for one in dataset.demonstrations(1, 0.0, 1) if one.mistake]


def test_a_row_may_go_on_a_conversation(tmp_path: Path) -> None:
    said = [Message(role="user", content="2 + 2?"), Message(role="assistant", content="5")]
    task = make_task("t", prompt="Really?", history=tuple(said), gold="4")
    source = write(tmp_path, task.model_dump_json())
    (opened,) = open_dataset(source, DatasetPurpose.TRAIN, None).tasks
    assert opened == task
    assert opened.messages == (*said, Message(role="user", content="Really?"))
    tokenizer = train_tokenizer(TEXTS, 320)
    ids = prompt_token_ids(opened, tokenizer)
    assert tokenizer.decode(ids) == (
        "<|user|>2 + 2?<|end|><|assistant|>5<|end|><|user|>Really?<|end|><|assistant|>"
    )
    with pytest.raises(ValueError, match="history goes with the prompt format `chat`"):
        make_task("t", history=tuple(said), prompt_format="raw")


def test_a_folder_stands_for_the_tasks_of_all_its_cells(tmp_path: Path) -> None:
    for cell, role in (("a", Role.TRAIN), ("b", Role.VALIDATION)):
        (tmp_path / cell).mkdir()
        lines = [make_task(f"{cell}{at}", role=role).model_dump_json() for at in range(2)]
        (tmp_path / cell / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "a" / "other.jsonl").write_text("not a task\n")
    source = JsonlSource(kind="jsonl", path=tmp_path, role=Role.TRAIN, rubric="or_debug.seed")
    tasks = open_dataset(source, DatasetPurpose.TRAIN, None).tasks
    assert [task.id for task in tasks] == ["a0", "a1"]
    assert {task.rubric for task in tasks} == {"or_debug.seed"}
    everything = JsonlSource(kind="jsonl", path=tmp_path)
    assert len(open_dataset(everything, DatasetPurpose.EVALUATE, None).tasks) == 4
    (tmp_path / "b" / "tasks.jsonl").write_text(make_task("a0").model_dump_json() + "\n")
    with pytest.raises(DatasetError, match="two files have the task a0"):
        open_dataset(everything, DatasetPurpose.EVALUATE, None)


def test_a_folder_without_tasks_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"has no tasks\.jsonl, and no folder in it has one"):
        open_dataset(JsonlSource(kind="jsonl", path=tmp_path), DatasetPurpose.TRAIN, None)
