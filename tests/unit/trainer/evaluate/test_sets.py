"""Sets of an evaluation: names, roles, and a fixed random part."""

from pathlib import Path

import pytest

from assay_shared.errors import DatasetError, InvalidInput, RoleError
from assay_shared.types import EnvironmentTask, Message, PromptFormat, Role, Task
from assay_trainer.evaluate.sets import (
    OpenSet,
    asked,
    check_names,
    check_server_reads,
    check_sets,
    open_sets,
)
from assay_trainer.evaluation.records.protocol import Protocol
from tests.support.fakes import make_task


def write(path: Path, *tasks: Task) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{one.model_dump_json()}\n" for one in tasks))
    return path


def opened(*names: object, **changes: object) -> list[OpenSet]:
    options: dict[str, object] = {"limit": None, "limit_seed": 0, "allow_train": False}
    return open_sets([*map(str, names)], None, **(options | changes))  # type: ignore[arg-type]


def some(number: int, role: Role = Role.TEST) -> list[Task]:
    return [make_task(f"{role}{i}", role=role) for i in range(number)]


def test_a_set_is_called_like_its_file_unless_it_is_named(tmp_path: Path) -> None:
    first = write(tmp_path / "sums.jsonl", *some(1))
    second = write(tmp_path / "other" / "sums.jsonl", *some(1))

    assert [one.name for one in opened(first, f"more={second}")] == ["sums", "more"]
    with pytest.raises(InvalidInput, match="two sets are called sums"):
        opened(first, second)
    with pytest.raises(InvalidInput, match="'qa' cannot be a set's name"):
        opened(f"qa={first}")
    with pytest.raises(DatasetError, match="there is no set 'none.jsonl'"):
        opened("none.jsonl")


def test_a_folder_of_cells_is_a_set_of_all_their_tasks(tmp_path: Path) -> None:
    for cell in ("type_A_easy", "type_B_easy"):
        write(tmp_path / "or" / cell / "tasks.jsonl", make_task(cell, role=Role.VALIDATION))

    (found,) = opened(tmp_path / "or")

    assert [task.id for task in found.tasks] == ["type_A_easy", "type_B_easy"]
    assert found.facts.test_only_opened is None
    with pytest.raises(DatasetError, match=r"has no tasks.jsonl"):
        opened(tmp_path)


def test_rows_for_training_are_measured_only_with_a_flag(tmp_path: Path) -> None:
    mixed = write(tmp_path / "mixed.jsonl", *some(3, Role.TRAIN), *some(2))
    train = write(tmp_path / "train.jsonl", *some(3, Role.TRAIN))

    (found,) = opened(mixed)

    assert (found.facts.num_tasks, found.facts.num_train_left_out) == (2, 3)
    assert found.facts.test_only_opened is not None
    with pytest.raises(RoleError, match="all 3 rows of .* are for training"):
        opened(train)
    (whole,) = opened(mixed, allow_train=True)
    assert whole.facts.roles == {Role.TRAIN: 3, Role.TEST: 2}


def test_a_limit_takes_the_same_random_tasks_again_and_moves_the_digest(tmp_path: Path) -> None:
    file = write(tmp_path / "many.jsonl", *some(50))

    ((first,), (again,), (other,), (whole,)) = (
        opened(file, limit=10),
        opened(file, limit=10),
        opened(file, limit=10, limit_seed=1),
        opened(file),
    )

    assert len(first.tasks) == 10
    assert first.facts.digest == again.facts.digest
    assert len({one.facts.digest for one in (first, other, whole)}) == 3
    order = [task.id for task in whole.tasks]
    assert [task.id for task in first.tasks] == sorted(
        (task.id for task in first.tasks), key=order.index
    )


def test_a_system_message_replaces_the_tasks_own(tmp_path: Path) -> None:
    own = (Message(role="system", content="old"), Message(role="user", content="q"))
    task = make_task(history=own)

    found = asked(task, Protocol(system="new", prompt_format=PromptFormat.CHAT))

    assert [(one.role, one.content) for one in found.messages] == [
        ("system", "new"),
        ("user", "q"),
        ("user", task.prompt),
    ]


@pytest.mark.parametrize(
    ("task", "protocol", "message"),
    [
        (
            make_task(prompt_format="raw"),
            Protocol(system="s"),
            "t of s has a raw prompt, which takes no system",
        ),
        (
            make_task(prompt_format="raw"),
            Protocol(template_arguments={"enable_thinking": False}),
            "which takes no template_arguments",
        ),
        (make_task(), Protocol(kind="likelihood"), "t of s has no options to choose from"),
        (
            make_task(environment=EnvironmentTask(name="e", instance={})),
            Protocol(kind="majority", temperature=1.0),
            "t of s is an episode",
        ),
    ],
)
def test_a_setting_that_reaches_no_prompt_is_refused(
    task: Task, protocol: Protocol, message: str, tmp_path: Path
) -> None:
    (found,) = opened(
        f"s={write(tmp_path / 's.jsonl', task.model_copy(update={'role': Role.TEST}))}"
    )

    with pytest.raises(InvalidInput, match=message):
        check_sets([found], protocol)


def test_a_server_reads_no_options_in_chats(tmp_path: Path) -> None:
    task = make_task(role=Role.TEST, checks={"choice": {"options": ["x", "y"], "answer": "A"}})
    sets = opened(write(tmp_path / "s.jsonl", task))

    check_server_reads(sets, Protocol(kind="likelihood", prompt_format="raw"))
    check_server_reads(sets, Protocol())
    with pytest.raises(InvalidInput, match="--prompt-format raw"):
        check_server_reads(sets, Protocol(kind="likelihood", prompt_format="chat"))


def test_a_number_for_a_set_that_is_not_there_is_refused(tmp_path: Path) -> None:
    sets = opened(write(tmp_path / "s.jsonl", *some(1)))

    check_names({"": 10, "s": 3}, sets)
    with pytest.raises(InvalidInput, match="there is no set 'g9': there are s"):
        check_names({"g9": 3}, sets)
