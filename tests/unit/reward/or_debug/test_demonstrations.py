import pytest

from assay_reward.or_debug.demonstrations import demonstrations
from assay_reward.or_debug.episode import Episodes
from assay_reward.or_debug.episode_metrics import measure
from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from tests.fakes import make_task
from tests.unit.reward.or_debug.planted import BROKEN, INSTANCE, make_or_task

EPISODES = Episodes(time_limit_s=10.0)


def rows(*tasks: Task, mistake_rate: float = 0.0, seed: int = 0) -> list[Task]:
    return list(demonstrations(tasks, EPISODES, mistake_rate=mistake_rate, seed=seed))


def is_faithful(shown: list[Task]) -> bool:
    turns = tuple(row.gold or "" for row in shown)
    return measure(INSTANCE, EPISODES.replay(BROKEN, turns, 8)).faithful


def test_each_turn_is_a_row_that_goes_on_what_was_said() -> None:
    task = make_or_task()
    first, second, third = rows(task)
    assert [row.gold for row in (first, second, third)] == [
        "Action: GET_IIS()",
        "c3: x1 + x2 >= 12\nAction: DROP(c3)",
        "Action: SUBMIT(c3)",
    ]
    assert (first.prompt, first.history) == (task.prompt, ())
    assert [message.content for message in third.history] == [
        task.prompt,
        "Action: GET_IIS()",
        second.prompt,
        second.gold,
    ]
    assert "Rows: c1, c3\n" in second.prompt
    assert len({row.id for row in (first, second, third)}) == 3
    assert first.environment is None, "it is to be learnt from, not to be played"


def test_what_is_shown_recovers_the_model_and_a_mistake_does_not() -> None:
    assert is_faithful(rows(make_or_task()))
    kinds = set()
    for seed in range(12):
        shown = rows(make_or_task(), mistake_rate=1.0, seed=seed)
        assert not is_faithful(shown)
        kinds.add((shown[-1].gold or "").splitlines()[-1])
    assert kinds == {"Action: DROP()", "Action: DROP(c1)"}


def test_a_row_is_quoted_as_it_was_seen_before_it_is_dropped() -> None:
    look, repair = rows(make_or_task(max_turns=2))
    assert (look.gold or "").splitlines() == ["Action: GET_IIS()"]
    quoted, action = (repair.gold or "").splitlines()
    assert action == "Action: DROP(c3)"
    assert quoted.startswith("c3: ") and quoted in repair.prompt.splitlines()


def test_a_task_shows_as_many_turns_as_it_allows() -> None:
    assert [row.gold for row in rows(make_or_task(max_turns=2))] == [
        "Action: GET_IIS()",
        "c3: x1 + x2 >= 12\nAction: DROP(c3)",
    ]


def test_only_training_tasks_of_this_environment_are_shown() -> None:
    held_out = make_or_task().model_copy(update={"role": Role.TEST})
    assert rows(held_out) == []
    with pytest.raises(DatasetError, match="task t is not played in or_debug"):
        rows(make_task())
