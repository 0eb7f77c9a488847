import pytest

from assay_reward.or_debug.dataset.demonstrations import demonstrations
from assay_reward.or_debug.episode.episode import Episodes
from assay_reward.or_debug.episode.metrics import measure
from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from tests.support.fakes import make_task
from tests.support.or_debug.planted import BROKEN, INSTANCE, make_or_task

EPISODES = Episodes(time_limit_s=10.0)


def rows(*tasks: Task, mistake_rate: float = 0.0, seed: int = 0) -> list[Task]:
    return list(demonstrations(tasks, EPISODES, mistake_rate=mistake_rate, seed=seed))


def replies(row: Task) -> tuple[str, ...]:
    said = (message.content for message in row.history if message.role == "assistant")
    return (*said, row.gold or "")


def is_faithful(row: Task) -> bool:
    return measure(INSTANCE, EPISODES.replay(BROKEN, replies(row), 8)).faithful


def test_an_episode_is_its_last_turn_and_what_was_said_before() -> None:
    task = make_or_task()
    (row,) = rows(task)
    assert row.gold == "Action: SUBMIT(c3)"
    asked, look, found, repair = (message.content for message in row.history)
    assert asked == task.prompt
    assert look == "Action: GET_IIS()"
    assert "Rows: c1, c3\n" in found
    assert repair == "Action: DROP(c3)"
    assert "Status: optimal" in row.prompt
    assert row.environment is None, "it is to be learnt from, not to be played"


def test_what_is_shown_recovers_the_model_and_a_mistake_does_not() -> None:
    assert is_faithful(*rows(make_or_task()))
    kinds = set()
    for seed in range(12):
        (row,) = rows(make_or_task(), mistake_rate=1.0, seed=seed)
        assert not is_faithful(row)
        kinds.add(row.gold)
    assert kinds == {"Action: DROP()", "Action: DROP(c1)"}


def test_a_task_shows_as_many_turns_as_it_allows() -> None:
    (row,) = rows(make_or_task(max_turns=2))
    assert replies(row) == ("Action: GET_IIS()", "Action: DROP(c3)")


def test_only_training_tasks_of_this_environment_are_shown() -> None:
    held_out = make_or_task().model_copy(update={"role": Role.TEST})
    assert rows(held_out) == []
    with pytest.raises(DatasetError, match="task t is not played in or_debug"):
        rows(make_task())
