"""Baselines read the same text as a model, and do as their names say."""

import pytest

from assay_reward.or_debug.episode.episode import Episodes
from assay_reward.or_debug.evaluate.baselines import (
    BASELINES,
    TRIVIAL,
    baseline,
    is_optimal,
    members_of,
    rows_of,
)
from tests.support.or_debug.planted import BROKEN, make_or_task

TASK = make_or_task()


async def play(name: str, max_turns: int = 8, seed: int = 0) -> list[str]:
    """Return a baseline's replies until the episode ends, without `Action: `."""
    episodes, player = Episodes(5.0), baseline(name, seed).player(TASK, 0)
    turns: list[str] = []
    observation, done = TASK.prompt, False
    while not done and (reply := await player.reply(observation)) is not None:
        turns.append(reply.text)
        state = episodes.replay(BROKEN, tuple(turns), max_turns)
        observation, done = state.observation, state.done
    return [turn.removeprefix("Action: ") for turn in turns]


def test_names_are_read_from_the_texts() -> None:
    assert rows_of(TASK.prompt) == ["c1", "c2", "c3", "c4", "c5"]
    told = Episodes(5.0).replay(BROKEN, ("Action: GET_IIS()",), 8).observation
    assert members_of(told) == ["c1", "c3"]
    assert not is_optimal(told)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("submit_at_once", ["SUBMIT()"]),
        ("first_row", ["DROP(c1)", "SUBMIT(c1)"]),
        ("constant", ["DROP(c1)"] * 8),
        ("drop_all_members", ["GET_IIS()", "DROP(c1)", "DROP(c3)", "SUBMIT(c1, c3)"]),
        ("relax_everything", ["RELAX(c1, 1000000)", "SUBMIT()"]),
        ("probe", ["GET_IIS()", "DROP(c1)", "SUBMIT(c1)"]),
    ],
)
async def test_a_baseline_plays_by_its_name(name: str, said: list[str]) -> None:
    assert await play(name) == said


async def test_random_members_differ_by_seed_and_repeat_with_it() -> None:
    episodes = [await play("drop_random_member", seed=seed) for seed in range(12)]
    assert {episode[1] for episode in episodes} == {"DROP(c1)", "DROP(c3)"}
    assert episodes == [await play("drop_random_member", seed=seed) for seed in range(12)]


@pytest.mark.parametrize("name", BASELINES)
async def test_every_baseline_ends_within_its_turns(name: str) -> None:
    assert 1 <= len(await play(name, max_turns=3)) <= 3


def test_the_informed_one_is_not_called_trivial() -> None:
    assert set(BASELINES) - set(TRIVIAL) == {"probe"}
