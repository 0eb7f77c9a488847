"""A failure is never a score: neighbours are killed and silenced under real groups."""

import asyncio
import json
import os
import signal
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_shared.clients import RewardClient
from assay_shared.local.launcher import Launcher
from assay_shared.types import (
    CallCase,
    Completion,
    FinishReason,
    Group,
    PolicyVersion,
    Reward,
    Rollout,
    Scored,
    ScoredGroup,
    ScoreRequest,
    ScoreResponse,
    Unscored,
)
from assay_trainer.events import StepEvent
from assay_trainer.learner.advantage import advantages
from assay_trainer.learner.normalisation.group_rewards import GroupRewards
from assay_trainer.learner.packs import rows
from assay_trainer.rollouts.rollout_log import read_rollouts
from tests.conftest import SandboxProcess, Serve, wait_until
from tests.integration.conftest import Assay, JudgeModel, demo_file, wait_for_event
from tests.support.fakes import make_task
from tests.support.runs import LOOKUP

COLOUR = make_task("colour", rubric="qa", gold="green", tests=())


def values(rewards: tuple[Reward, ...]) -> list[float | None]:
    return [r.value if isinstance(r, Scored) else None for r in rewards]


async def score(url: str, request: ScoreRequest) -> ScoreResponse:
    async with RewardClient(url) as client:
        return await client.score(request)


def num_judged_cases(sandbox_url: str) -> float:
    """Return how many cases a sandbox has judged."""
    with urlopen(f"{sandbox_url}/metrics", timeout=10) as answer:
        shown = text_string_to_metric_families(answer.read().decode())
    (cases,) = [family for family in shown if family.name == "assay_sandbox_cases"]
    return sum(one.value for one in cases.samples if one.name.endswith("_total"))


def check_statistics(rewards: tuple[Reward, ...], request: ScoreRequest) -> None:
    """The advantages are of the scored samples alone, in the training batch too."""
    mixed = values(rewards)
    alone = [value for value in mixed if value is not None]
    got = [a for a in advantages([GroupRewards(mixed)])[0] if a is not None]
    assert got == advantages([GroupRewards(alone)])[0]
    completion = Completion(
        token_ids=(1,),
        logprobs=(0.0,),
        text="",
        finish_reason=FinishReason.STOP,
        policy=PolicyVersion(version=1, digest="d"),
    )
    group = Group(key="k", task=request.task, rollouts=(Rollout.of(completion),) * len(rewards))
    batch_rows = rows([ScoredGroup(group=group, rewards=rewards, worker="w")])
    assert [row.advantage for row in batch_rows] == got


@pytest.mark.rule("a sandbox that fails has judged nothing")
async def test_a_sandbox_killed_under_a_group_scores_nothing_zero(
    sandbox_process: SandboxProcess, serve: Serve
) -> None:
    """Some programs are done at its death; the others have no reward."""
    settings = RewardSettings(sandbox_url=sandbox_process.url, reward_retry_budget_s=1.0)
    url = serve(create_reward(settings))
    program = "import time\ndef f(x):\n    time.sleep({pause})\n    return x{wrong}\n"
    answers = tuple(
        program.format(pause=0.01 if i < 4 else 12.0, wrong="" if i % 2 else " + 1")
        for i in range(8)
    )
    task = make_task("slow", tests=(CallCase(function="f", args=(1,), expected=1),))
    request = ScoreRequest(task=task, answers=answers)
    scoring = asyncio.create_task(score(url, request))
    four = lambda: num_judged_cases(sandbox_process.url) == 4  # noqa: E731
    await asyncio.to_thread(wait_until, four, "four cases", 10)
    await asyncio.sleep(0.5)  # their results are on the way
    sandbox_process.process.kill()
    rewards = (await scoring).rewards
    assert values(rewards) == [0.0, 1.0, 0.0, 1.0, None, None, None, None]
    for reward in rewards[4:]:
        assert isinstance(reward, Unscored)
        assert reward.failure.service == "sandbox"
    check_statistics(rewards, request)


async def test_a_sandbox_that_comes_back_in_time_costs_no_sample(mesh: Launcher) -> None:
    task = make_task("quick", tests=(CallCase(function="f", args=(1,), expected=1),))
    os.kill(mesh.processes["sandbox"], signal.SIGKILL)
    request = ScoreRequest(task=task, answers=("def f(x): return x",) * 4)
    scoring = asyncio.create_task(score(mesh.urls["reward"], request))
    await asyncio.sleep(0.3)
    mesh.watch()
    assert values((await scoring).rewards) == [1.0] * 4


async def test_a_judge_that_says_nothing_scores_nothing_zero(
    mesh: Launcher, judge_model: tuple[JudgeModel, str]
) -> None:
    judge_model[0].silent_share = 0.5
    request = ScoreRequest(task=COLOUR, answers=coloured(range(16)))
    rewards = (await score(mesh.urls["reward"], request)).rewards
    seen = values(rewards)
    assert None in seen
    assert {value for value in seen[0::2] if value is not None} == {1.0}
    assert {value for value in seen[1::2] if value is not None} == {0.0}
    check_statistics(rewards, request)
    judge_model[0].silent_share = 1.0
    request = ScoreRequest(task=COLOUR, answers=coloured(range(16, 32)))
    rewards = (await score(mesh.urls["reward"], request)).rewards
    assert all(isinstance(reward, Unscored) for reward in rewards)


def coloured(numbers: range) -> tuple[str, ...]:
    """Right and wrong answers in turn. No two are alike: the same question is asked once."""
    return tuple(" " * number + ("red" if number % 2 else "green") for number in numbers)


def test_a_run_with_a_failing_judge_trains_on_what_was_judged(
    assay: Assay, judge_model: tuple[JudgeModel, str], tmp_path: Path
) -> None:
    """All tasks are the judge's, and half of its questions are never answered."""
    judge_model[0].silent_share = 0.5
    folder = tmp_path / "run"
    # The judge remembers what it said to the same answers in other tests' runs.
    # With half of a group's answers judged, larger groups still differ in their rewards.
    settings = (*LOOKUP, "data.train.seed=7", "grpo.steps=2", "grpo.group_size=8")
    assay.run("train", demo_file(), *settings, "--folder", str(folder))
    found = [wait_for_event(folder, "step", step=step) for step in (1, 2)]
    steps = [StepEvent.model_validate(event.data) for event in found]
    num_failed = sum(step.failures.get("judge", 0) for step in steps)
    assert num_failed > 0
    for step in steps:
        right = step.outcomes.get("accepted", 0) / sum(step.outcomes.values())
        assert step.reward == right, "the mean is over scored samples alone"
    for scored in read_rollouts(folder / "rollouts.jsonl"):
        check_statistics(scored.rewards, ScoreRequest(task=scored.group.task, answers=("x",)))
    report = json.loads((folder / "report.json").read_text())
    assert report["training"]["failures"] == {"judge": num_failed}
