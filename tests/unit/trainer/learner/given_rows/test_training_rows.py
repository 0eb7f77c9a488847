import pytest

from assay_shared.errors import DatasetError
from assay_shared.types import Message, Task
from assay_trainer.config import SFTConfig
from assay_trainer.learner.given_rows.training_rows import hold_out, num_updates


def split(tasks: list[Task], share: float, seed: int = 0) -> tuple[list[Task], list[Task]]:
    return hold_out(tasks, lambda task: task, share, seed, "sft.validation_share")


TASKS = [Task(id=f"{n}-{copy}", prompt=f"Task {n}") for copy in range(3) for n in range(20)]


def test_no_prompt_is_on_both_sides() -> None:
    train, held_out = split(TASKS, 0.2)
    assert len({task.prompt for task in held_out}) == 4
    assert not {task.prompt for task in train} & {task.prompt for task in held_out}
    assert len(train) + len(held_out) == len(TASKS)


def test_the_replies_of_an_episode_stay_together() -> None:
    first = (Message(role="user", content="Begin."), Message(role="assistant", content="Yes."))
    episodes = [Task(prompt="Begin."), Task(prompt="And then?", history=first)]
    train, _ = split([*episodes, *TASKS], 0.5, seed=3)
    assert {task in train for task in episodes} in ({True}, {False})


def test_the_seed_decides() -> None:
    assert split(TASKS, 0.2, 1) == split(TASKS, 0.2, 1)
    assert split(TASKS, 0.2, 1) != split(TASKS, 0.2, 2)
    assert split(TASKS, 0.0) == (TASKS, [])


def test_something_is_left_to_train_on() -> None:
    with pytest.raises(DatasetError, match="leave none to train on") as error:
        split(TASKS[:1], 0.01)
    assert error.value.field == "sft.validation_share"


@pytest.mark.parametrize(
    ("options", "number"),
    [({"steps": 7}, 7), ({"epochs": 2}, 8), ({"epochs": 2, "micro_batch_size": 2}, 8)],
)
def test_an_epoch_has_its_last_incomplete_batch(options: dict[str, int], number: int) -> None:
    assert num_updates(SFTConfig.model_validate({"batch_size": 4, **options}), 14) == number
