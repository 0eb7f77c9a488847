"""Episodes through real inference, a real environment and its solver: the
sampled tokens are the trained tokens."""

from pathlib import Path

import pytest
import torch

from assay_inference.api.app import create_app as create_inference
from assay_inference.settings import InferenceSettings
from assay_reward.app import create_app as create_reward
from assay_reward.or_debug.dataset.tasks import Shown, to_task
from assay_reward.settings import RewardSettings
from assay_shared.clients import InferenceClient, RewardClient
from assay_shared.types import GroupRequest, Role, SamplingParams, Scored
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.network.model import create_policy, load_policy
from assay_trainer.learner.objective import Objective
from assay_trainer.learner.packs import pack_rows, rows
from assay_trainer.rollouts.worker import run_group
from assay_trainer.weights.folder import publish_policy
from tests.conftest import Serve
from tests.support.or_debug.planted import INSTANCE
from tests.support.policies import TEXTS, TINY

TASK = to_task(INSTANCE, Role.TRAIN, max_turns=3, shown=Shown.MODEL)


@pytest.fixture
def policy_folder(tmp_path: Path) -> Path:
    """A random policy with room for a conversation, and without an early end."""
    config = TINY.model_copy(update={"context_length": 2048})
    model, tokenizer = create_policy(config, [*TEXTS, TASK.prompt], seed=0)
    publish_policy(model, tokenizer, tmp_path / "policy")
    return tmp_path / "policy"


async def test_each_reply_is_sampled_in_the_very_context_that_is_trained_on(
    serve: Serve, policy_folder: Path
) -> None:
    inference = serve(
        create_inference(InferenceSettings(inference_device="cpu", inference_model=policy_folder))
    )
    reward = serve(create_reward(RewardSettings()))
    sampling = SamplingParams(n=4, max_tokens=12, seed=5)
    request = GroupRequest(key="k", run="run", task=TASK, sampling=sampling)
    async with InferenceClient(inference) as generator, RewardClient(reward) as rewarder:
        scored = await run_group(request, generator, rewarder, "w")
        again = await run_group(request, generator, rewarder, "w")
    said, said_again = (
        [[turn.text for turn in c.turns] for c in one.group.rollouts] for one in (scored, again)
    )
    assert said == said_again, "seeds make an episode repeatable"
    for completion, given in zip(scored.group.rollouts, scored.rewards, strict=True):
        assert isinstance(given, Scored)
        assert given.value < 0.5, "noise repairs nothing"
        assert len(completion.turns) == 3
        assert completion.turns[0].observation.startswith("Invalid: ")
        assert completion.turns[1].observation.endswith("Turns left: 1")
    model, _ = load_policy(policy_folder)
    objective = Objective.of(GRPOConfig(steps=1))
    for row in rows([scored]):
        (pack,) = pack_rows([row], objective, 1)
        with torch.no_grad():
            logits_TV = model(input_ids=pack.token_ids_T[None]).logits[0].float()
        own_LV = logits_TV[pack.places_L - 1].log_softmax(-1)
        found_L = own_LV.gather(-1, pack.token_ids_T[pack.places_L][:, None])[:, 0]
        turns = row.rollout.turns
        assert len(pack.places_L) == sum(turn.end - turn.start for turn in turns)
        assert len(pack.places_L) < len(row.rollout.token_ids), "observations are read"
        torch.testing.assert_close(found_L, pack.loss.old_logprobs_L, rtol=0, atol=1e-3)
