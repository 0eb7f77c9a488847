"""A tiny policy learns which workflow solves its problems, from an executor of known accuracy."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from assay_reward.workflows.playing.options import ENVIRONMENT
from assay_reward.workflows.playing.tasks import write_tasks
from assay_shared.clients import RewardClient
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import (
    Answer,
    EnvironmentTask,
    GenerateRequest,
    GenerateResponse,
    Group,
    GroupRequest,
    Role,
    SamplingParams,
    Scored,
    ScoredGroup,
    ScoreRequest,
    Status,
    Task,
)
from assay_trainer.learner.batching.group_batch import GroupBatch
from assay_trainer.rollouts.worker import run_group
from tests.integration.conftest import Assay
from tests.support.fakes import FakeGenerator, make_rollout

#: One is invalid, one needs a repair, one is often wrong, and one is mostly right.
WORKFLOWS = {
    "invalid": "found = AnswerGenerate(input=nothing)\nreturn found.answer",
    "misspelt": "found = answergenerate(input=problem)\nreturn found.answer",
    "direct": "found = AnswerGenerate(input=problem)\nreturn found.answer",
    "program": "found = Programmer(problem=problem)\nreturn found.output",
}


def make_task(a: int, b: int, role: Role, gold: str | None = None) -> Task:
    instance = {"problem": f"What is {a} + {b}?", "rubric": "math", "trace_chars": 0}
    return Task(
        id=f"sum/{a}-{b}-{role}" + (f"/{gold}" if gold else ""),
        dataset="sums",
        role=role,
        prompt=f"{a} + {b}",
        rubric="workflow",
        reference=str(a + b),
        gold=None if gold is None else WORKFLOWS[gold],
        environment=EnvironmentTask(name=ENVIRONMENT, instance=instance, max_turns=1),
        tags={"domain": "math"},
    )


def write_sets(folder: Path, num_held_out: int) -> None:
    rng = random.Random(1)
    pairs = [(a, b) for a in range(10, 40) for b in range(10, 40)]
    rng.shuffle(pairs)
    train, held_out = pairs[:300], pairs[300 : 300 + num_held_out]
    write_tasks([make_task(*one, Role.TRAIN) for one in train], folder / "train.jsonl")
    write_tasks([make_task(*one, Role.VALIDATION) for one in held_out], folder / "held_out.jsonl")
    shown = [
        make_task(*one, Role.TRAIN, gold=[*WORKFLOWS][number % len(WORKFLOWS)])
        for number, one in enumerate(train)
    ]
    write_tasks(shown, folder / "demonstrations.jsonl")


RUN_FILE = """
name: workflows
policy:
  new: {{vocabulary_size: 320, hidden_size: 64, intermediate_size: 128, num_layers: 2, num_heads: 2,
    context_length: 128}}
data:
  train: {{kind: jsonl, path: {folder}/train.jsonl}}
  held_out: {{kind: jsonl, path: {folder}/held_out.jsonl}}
  demonstrations: {{kind: jsonl, path: {folder}/demonstrations.jsonl}}
sft: {{steps: 150, batch_size: 32, learning_rate: 0.003}}
grpo:
  steps: 25
  groups_per_step: 8
  group_size: 8
  max_groups_per_step: 24
  max_tokens: 40
  learning_rate: 0.002
  warmup_steps: 2
  max_staleness: 0
  signal_check: null
evaluation: {{samples_per_task: 2, k: [1], max_tokens: 40}}
"""


def train(assay: Assay, folder: Path, *overrides: str, num_held_out: int = 100) -> dict[str, Any]:
    """Run the file; return the report."""
    write_sets(folder, num_held_out)
    file = folder / "run.yaml"
    file.write_text(RUN_FILE.format(folder=folder))
    assay.run("train", str(file), *overrides, "--folder", str(folder / "run"))
    found: dict[str, Any] = json.loads((folder / "run" / "report.json").read_text())
    return found


@pytest.mark.slow
async def test_a_group_is_played_and_scored_by_the_real_services(assay: Assay) -> None:
    """Programs run in the sandbox, and the executor answers over HTTP."""
    settings = ServiceSettings.model_validate({"reward_url": assay.environment["ASSAY_REWARD_URL"]})
    task = make_task(20, 22, Role.TRAIN)
    answers = tuple(Answer(text=f"```\n{one}\n```") for one in WORKFLOWS.values())
    async with RewardClient.from_settings(settings) as client:
        response = await client.score(ScoreRequest(task=task, answers=answers))
    scored = ScoredGroup(
        group=Group(key="k", task=task, prompt_token_ids=(1,), rollouts=(make_rollout(),) * 4),
        rewards=response.rewards,
        scorer=response.scorer,
        worker="w",
    )
    invalid, misspelt, direct, program = scored.rewards
    assert isinstance(invalid, Scored)
    assert (invalid.value, invalid.outcome) == (0.0, Status.SYNTAX_ERROR)
    for reward, tokens in ((misspelt, 110.0), (direct, 110.0), (program, 140.0)):
        assert isinstance(reward, Scored), reward
        assert reward.measures["workflow_tokens"] == tokens
        assert reward.evidence["workflow"]
    assert program.measures["workflow_programs"] == 1.0
    batch = GroupBatch(version=1)
    batch.count(scored, None)
    rates = batch.facts(1)["measures"]
    assert rates["workflow_valid"] == 0.75
    assert rates["workflow_repaired"] == 0.25
    assert rates["workflow_operator_Programmer"] == pytest.approx(1 / 3)


@pytest.mark.slow
async def test_an_episode_ends_with_the_workflow_that_the_policy_kept(assay: Assay) -> None:
    """Through the worker's own code; only the policy is scripted."""
    settings = ServiceSettings.model_validate({"reward_url": assay.environment["ASSAY_REWARD_URL"]})
    task = make_task(21, 22, Role.TRAIN)
    assert task.environment is not None
    played = task.environment.model_copy(update={"max_turns": 3})
    task = task.model_copy(update={"environment": played})
    replies = [WORKFLOWS["invalid"], WORKFLOWS["program"], "keep"]

    class Policy(FakeGenerator):
        async def generate(self, request: GenerateRequest) -> GenerateResponse:
            self.texts = [replies[len(self.requests)]]
            return await super().generate(request)

    generator = Policy([""])
    request = GroupRequest(key="k", run="r", task=task, sampling=SamplingParams(n=1, max_tokens=9))
    async with RewardClient.from_settings(settings) as client:
        scored = await run_group(request, generator, client, "w")
    (rollout,), (reward,) = scored.group.rollouts, scored.rewards
    observations = [turn.observation or "" for turn in rollout.turns]
    assert "there is no nothing" in observations[0]
    assert "Programmer (line 1)" in observations[1]
    assert "Answer: 4" in observations[1]
    assert isinstance(reward, Scored)
    assert reward.measures["workflow_valid"] == 1.0


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_policy_finds_the_better_workflow(assay: Assay, tmp_path: Path, seed: int) -> None:
    report = train(assay, tmp_path, f"seed={seed}")
    assert report["differences"]["pass_at_1"]["low"] > 0
    for name in ("reward", "workflow_valid", "workflow_operator_Programmer"):
        assert report["measured"][name]["difference"]["low"] > 0, name
    assert report["measured"]["workflow_repaired"]["difference"]["high"] < 0
    assert report["training"]["failures"] == {}
