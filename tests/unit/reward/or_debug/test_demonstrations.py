import pytest

from assay_reward.or_debug.demonstrations import demonstrations
from assay_reward.or_debug.episode import Episodes
from assay_reward.or_debug.episode_metrics import measure
from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from tests.fakes import make_task
from tests.unit.reward.or_debug.planted import BROKEN, INSTANCE, make_or_task

EPISODES = Episodes(time_limit_s=10.0)


def rows(
    *tasks: Task, mistake_rate: float = 0.0, seed: int = 0, with_history: bool = True
) -> list[Task]:
    found = demonstrations(
        tasks, EPISODES, mistake_rate=mistake_rate, seed=seed, with_history=with_history
    )
    return list(found)


def is_faithful(shown: list[Task]) -> bool:
    turns = tuple(row.gold or "" for row in shown)
    return measure(INSTANCE, EPISODES.replay(BROKEN, turns, 8)).faithful


def test_each_turn_is_a_row_that_goes_on_what_was_said() -> None:
    task = make_or_task()
    first, second, third = rows(task)
    assert [row.gold for row in (first, second, third)] == [
        "Action: GET_IIS()",
        "Action: DROP(c3)",
        "Action: SUBMIT(c3)",
    ]
    assert (first.prompt, first.history) == (task.prompt, ())
    assert [message.content for message in third.history] == [
        task.prompt,
        "Action: GET_IIS()",
        second.prompt,
        "Action: DROP(c3)",
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
        kinds.add(shown[-1].gold)
    assert "Action: DROP()" in kinds
    assert "Action: DROP(c1)" in kinds
    assert kinds & {"Action: DROP(c2)", "Action: DROP(c4)", "Action: DROP(c5)"}


def test_a_task_shows_as_many_turns_as_it_allows() -> None:
    assert [row.gold for row in rows(make_or_task(max_turns=2))] == [
        "Action: GET_IIS()",
        "Action: DROP(c3)",
    ]


def test_most_short_rows_show_the_last_observation_alone() -> None:
    tasks = [make_or_task().model_copy(update={"id": f"t{i}"}) for i in range(20)]
    shown = rows(*tasks, with_history=False)
    firsts = [row for row in shown if row.gold == "Action: GET_IIS()"]
    whole = [row for row in shown if row.history]
    assert (len(firsts), len(whole), len(shown)) == (2, 2 * 4, 2 + 2 * 4 + 2 * 20)
    assert len({row.id for row in shown}) == len(shown)


def test_only_training_tasks_of_this_environment_are_shown() -> None:
    held_out = make_or_task().model_copy(update={"role": Role.TEST})
    assert rows(held_out) == []
    with pytest.raises(DatasetError, match="task t is not played in or_debug"):
        rows(make_task())
