"""GRPO on real parts: weights over HTTP, a sampling engine; rewards are made up."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi import FastAPI

from assay_inference.api.app import create_app
from assay_inference.engines.transformers.engine import TransformersEngine
from assay_inference.settings import InferenceSettings
from assay_shared.clients import InferenceClient
from assay_shared.errors import Conflict
from assay_shared.types import (
    GroupRequest,
    PolicyVersion,
    ScoredGroup,
    ScoreRequest,
    ScoreResponse,
    WeightStatus,
)
from assay_shared.weights import checkpoint
from assay_trainer.config import LoRAConfig, RetentionConfig
from assay_trainer.curriculum.order import DrawOrder, TaskOrder
from assay_trainer.curriculum.selection import stage_tasks
from assay_trainer.curriculum.staged_order import StagedOrder
from assay_trainer.curriculum.state import Advance, BatcherState
from assay_trainer.curriculum_config import CurriculumConfig
from assay_trainer.events import StepEvent
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.batcher import GroupBatcher
from assay_trainer.learner.checkpoint import seal, sealed_files, whole
from assay_trainer.learner.grpo import GRPOStage
from assay_trainer.learner.mismatch import Mismatched
from assay_trainer.learner.network.adapters import add_adapter
from assay_trainer.learner.network.model import create_policy, load_policy
from assay_trainer.learner.ranks import Ranks
from assay_trainer.rollouts.set_aside import SetAside
from assay_trainer.rollouts.worker import run_group
from assay_trainer.stop import Stop
from assay_trainer.weights.adapter import adapted_layers
from assay_trainer.weights.folder import publish_policy
from assay_trainer.weights.publisher import WeightPublisher
from tests.conftest import Serve
from tests.support.fakes import FakeRewarder, make_rewards, make_task
from tests.support.policies import TEXTS, TINY, make_policy_folder, update_of

TASKS = [make_task(f"t{i}", prompt=text.partition("\n")[0]) for i, text in enumerate(TEXTS[:6])]


class HalfRight(FakeRewarder):
    """Finds every other answer right, whatever it says."""

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        values = (float(index % 2) for index in range(len(request.answers)))
        return ScoreResponse(rewards=make_rewards(*values), scorer="half@0")


class AllWrong(FakeRewarder):
    """Finds no answer right."""


class HardIsHopeless(HalfRight):
    """Finds every answer to a hard task wrong."""

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        if request.task.tags["difficulty"] == "hard":
            return await FakeRewarder.score(self, request)
        return await super().score(request)


class DirectRollouts:
    """Plays all received groups in the trainer's own process; calls `before` ahead of each."""

    def __init__(
        self, url: str, before: Callable[[int], None], rewarder: FakeRewarder | None = None
    ) -> None:
        self._url = url
        self._before = before
        self._rewarder = rewarder or HalfRight({})
        self._waiting: list[GroupRequest] = []
        self._num_played = 0

    @property
    def num_in_flight(self) -> int:
        return len(self._waiting)

    def send(self, request: GroupRequest) -> None:
        self._waiting.append(request)

    def collect(self, wait_s: float) -> list[ScoredGroup]:
        waiting, self._waiting = self._waiting, []
        return [self._play_now(request) for request in waiting]

    def _play_now(self, request: GroupRequest) -> ScoredGroup:
        self._num_played += 1
        self._before(self._num_played)
        return asyncio.run(self._play(request))

    async def _play(self, request: GroupRequest) -> ScoredGroup:
        async with InferenceClient(self._url) as client:
            return await run_group(request, client, self._rewarder, "w")


@pytest.fixture
def app() -> FastAPI:
    return create_app(InferenceSettings.model_validate({"inference_device": "cpu"}))


@pytest.fixture
def url(app: FastAPI, serve: Serve) -> str:
    return serve(app)


def train(
    folder: Path,
    url: str,
    before: Callable[[int], None] = lambda _: None,
    lora: LoRAConfig | None = None,
    rewarder: FakeRewarder | None = None,
    order: DrawOrder | None = None,
    skipped: list[tuple[int, Advance]] | None = None,
    **changes: object,
) -> list[StepEvent]:
    """Return the steps; the reason of an early end is in `early_end.txt`.

    The stages that had nothing to teach go to `skipped`, with the last step before.
    """
    publish_policy(*create_policy(TINY, TEXTS, seed=0), folder / "start")
    seal(folder / "start")
    model, tokenizer = load_policy(folder / "start")
    if lora is not None:
        add_adapter(model, lora, 0, torch.device("cpu"))
    values = {"steps": 3, "groups_per_step": 2, "group_size": 4, "max_tokens": 12}
    config = GRPOConfig.model_validate(values | {"max_staleness": 0} | changes)
    publisher = WeightPublisher(
        folder / "policy",
        lambda: InferenceClient(url),
        [1, 2, 3, 4],
        twins=lambda: sealed_files(folder),
    )
    feed = GroupBatcher(
        DirectRollouts(url, before, rewarder),  # type: ignore[arg-type]  # of the same shape
        order or TaskOrder(TASKS, seed=0),
        config,
        run="run",
        seed=0,
        state=BatcherState(),
        set_aside=SetAside("training", len(TASKS), 0.05, lambda _: None),
        published=publisher.published,
    )
    steps: list[StepEvent] = []

    def on_skipped(step: int, end: Advance) -> None:
        if skipped is not None:
            skipped.append((step, end))

    early_end = GRPOStage(
        model,
        tokenizer,
        feed,
        publisher,
        config,
        retention=RetentionConfig(),
        checkpoints=folder / "checkpoints",
        resume_from=None,
        rollouts_file=folder / "rollouts.jsonl",
        report=steps.append,
        stop=Stop(),
        ranks=Ranks(),
        on_skipped=on_skipped,
    ).train()
    (folder / "early_end.txt").write_text(early_end or "")
    return steps


@pytest.mark.parametrize("max_staleness", [0, 1])
@pytest.mark.slow
def test_engine_and_trainer_agree_about_the_tokens_of_their_common_weights(
    tmp_path: Path, url: str, max_staleness: int
) -> None:
    """With a staleness of 1, later batches are older: a waiting group of this version counts."""
    steps = train(tmp_path, url, max_staleness=max_staleness, learning_rate=0.01)
    assert len(steps) == 3
    for step in steps:
        assert step.mismatch is not None
        assert step.mismatch.num_tokens > 10
        assert step.mismatch.mean_abs_nats < 1e-4
        assert abs(step.mismatch.kl_k1_nats) < 1e-4
    assert steps[-1].staleness_mean == max_staleness


@pytest.mark.slow
def test_several_updates_of_a_step_move_the_ratio_from_the_steps_start(
    tmp_path: Path, url: str
) -> None:
    changes: dict[str, Any] = {
        "correction": "tis",
        "clip_low": 0.001,
        "clip_high": 0.001,
        "learning_rate": 0.01,
    }
    (tmp_path / "one").mkdir()
    once = train(tmp_path / "one", url, **changes)
    (tmp_path / "three").mkdir()
    thrice = train(tmp_path / "three", url, updates_per_step=3, **changes)
    for step in once:
        assert step.clipped_low == step.clipped_high == 0.0
    for step in thrice:
        assert step.clipped_low + step.clipped_high > 0.1
        assert step.importance_weight_mean == pytest.approx(1.0, abs=1e-4), "of the same weights"
        assert step.mismatch is not None
        assert step.mismatch.max_abs_nats < 1e-4, "measured before the step's updates"


@pytest.mark.slow
@pytest.mark.parametrize("normalise", ["rloo", "reinforce_pp", "reinforce_pp_baseline"])
def test_every_normalisation_trains_and_punished_answers_are_counted(
    tmp_path: Path, url: str, normalise: str
) -> None:
    overlong = {"kind": "punish", "tokens": 6}
    steps = train(tmp_path, url, normalise=normalise, overlong=overlong, steps=2)
    assert len(steps) == 2
    for step in steps:
        assert step.grad_norm > 0
        assert step.reward == 0.5, "the reward of the event is not punished"
        assert 0 < step.num_overlong <= 8


@pytest.mark.slow
def test_filtered_answers_still_count_among_the_lengths(tmp_path: Path, url: str) -> None:
    steps = train(tmp_path, url, overlong={"kind": "filter"}, replace_flat=False, steps=2)
    assert sum(step.num_overlong for step in steps) > 0
    for step in steps:
        assert step.truncated_share == pytest.approx(step.num_overlong / 8)
        assert step.length_max == 12 or step.num_overlong == 0


@pytest.mark.slow
def test_without_replacement_flat_groups_are_trained_on_and_change_nothing(
    tmp_path: Path, url: str
) -> None:
    steps = train(tmp_path, url, rewarder=AllWrong({}), replace_flat=False)
    assert len(steps) == 3
    for step in steps:
        assert (step.num_groups, step.num_without_signal, step.num_replaced) == (2, 2, 0)
        assert (step.grad_norm, step.moved_share, step.reward_variance) == (0.0, 0.0, 0.0)
        assert step.num_tokens > 0
    assert (tmp_path / "early_end.txt").read_text() == ""


@pytest.mark.slow
@pytest.mark.parametrize(("replace_flat", "num_steps"), [(True, 0), (False, 2)])
def test_as_many_flat_groups_end_the_stage_with_replacement_and_without(
    tmp_path: Path, url: str, num_steps: int, *, replace_flat: bool
) -> None:
    steps = train(
        tmp_path,
        url,
        rewarder=AllWrong({}),
        max_flat_steps=2,
        max_groups_per_step=3,
        replace_flat=replace_flat,
    )
    assert len(steps) == num_steps
    reason = (tmp_path / "early_end.txt").read_text()
    assert "none of the last 6 groups can teach anything" in reason
    assert "the pass rate is 0%" in reason


@pytest.mark.parametrize(("first", "second"), [("hard", "easy"), ("hard", "hard")])
def test_a_stage_with_nothing_to_teach_makes_way_for_the_next(
    tmp_path: Path, url: str, first: str, second: str
) -> None:
    stages = [
        {"name": name, "where": {"difficulty": level}, "steps": 3}
        for name, level in (("one", first), ("two", second))
    ]
    config = CurriculumConfig.model_validate({"stages": stages})
    tasks = [
        one.model_copy(update={"tags": {"difficulty": ("easy", "hard")[number % 2]}})
        for number, one in enumerate(TASKS)
    ]
    chosen = stage_tasks(config, tasks, "training")
    order = StagedOrder(config, chosen, seed=0, groups_per_step=2)
    skipped: list[tuple[int, Advance]] = []
    steps = train(
        tmp_path,
        url,
        rewarder=HardIsHopeless({}),
        order=order,
        skipped=skipped,
        max_flat_steps=2,
        max_groups_per_step=3,
        steps=6,
    )
    ((step, end),) = skipped
    assert (step, end.ended, end.to) == (0, "one", "two")
    assert "none of the last 6 groups can teach anything" in end.reason
    told = (tmp_path / "early_end.txt").read_text()
    if second == "easy":
        assert ([one.step for one in steps], told) == ([1, 2, 3, 4, 5, 6], "")
    else:
        assert (steps, told[:44]) == ([], "stage two: none of the last 6 groups can tea")


async def status_of(url: str) -> WeightStatus:
    async with InferenceClient(url) as client:
        return await client.weight_status()


def test_each_step_tells_how_long_it_waited_for_checkpoints(tmp_path: Path, url: str) -> None:
    steps = train(tmp_path, url, checkpoint_every=1)
    assert all(0 < step.checkpoint_wait_s < step.step_s for step in steps)
    assert all((step.checkpoint_write_s or 0) > 0 for step in steps[1:])
    names = [one.name for one in whole(tmp_path / "checkpoints")]
    assert names == ["checkpoint-2", "checkpoint-3"], "the end waits for the last one"
    (once,) = {step.checkpoint_wait_s for step in train(tmp_path / "without", url)}
    assert once == 0


@pytest.mark.slow
def test_versions_of_an_adapter_are_published_alone_and_sampled_from(
    tmp_path: Path, url: str
) -> None:
    """After its base, each version is an adapter's folder with a separate name and digest."""
    steps = train(tmp_path, url, lora=LoRAConfig(rank=4), learning_rate=0.02, steps=5)
    for step in steps:
        assert step.mismatch is not None
        assert step.mismatch.num_tokens > 10
        assert step.mismatch.mean_abs_nats < 1e-4
    versions = {one.name: one for one in (tmp_path / "policy").glob("v*")}
    base, *adapters = (versions[name] for name in sorted(versions))
    assert (base.name, adapters[-1].name) == ("v000001", "v000007"), "the base is kept"
    of_base, of_start = (
        checkpoint.file_digest(one / checkpoint.WEIGHTS) for one in (base, tmp_path / "start")
    )
    assert of_base == of_start
    start = tmp_path / "start" / "model.safetensors"
    assert (base / "model.safetensors").samefile(start), "equal weights have room once"
    digests = {checkpoint.adapter_digest(one, checkpoint.digest(base)) for one in adapters}
    assert len(digests) == len(adapters)
    for one in adapters:
        names = {file.name for file in one.iterdir()}
        assert names == {checkpoint.ADAPTER_CONFIG, checkpoint.ADAPTER_WEIGHTS}
    status = asyncio.run(status_of(url))
    assert status.policy is not None
    assert status.policy.digest in digests
    assert status.probe_difference is not None
    assert status.num_compared == status.num_tensors


@pytest.mark.slow
def test_an_engine_that_starts_again_gets_the_base_and_then_the_adapter(
    tmp_path: Path, serve: Serve
) -> None:
    settings = InferenceSettings.model_validate({"inference_device": "cpu"})
    urls = [serve(create_app(settings)) for _ in range(2)]
    make_policy_folder(tmp_path / "start")
    model, tokenizer = load_policy(tmp_path / "start")
    add_adapter(model, LoRAConfig(rank=4), 0, torch.device("cpu"))
    at = 0
    publisher = WeightPublisher(tmp_path / "p", lambda: InferenceClient(urls[at]), [1, 2, 3, 4])
    for version in (2, 3):
        with torch.no_grad():
            for layer in adapted_layers(model).values():
                layer.lora_B["default"].weight.add_(0.1)
        published = publisher.publish(model, tokenizer).policy
        assert published is not None
        assert published.version == version
    at = 1
    publisher.ensure_served(every_s=0.0)
    status = asyncio.run(status_of(urls[1]))
    assert status.policy == published
    assert status.probe_difference is not None


@pytest.mark.slow
@pytest.mark.promise("weights are proven to have landed")
def test_other_weights_behind_the_trainers_back_are_caught(
    tmp_path: Path, app: FastAPI, url: str
) -> None:
    """Version, digest and probe are as announced; only the sampling weights are not."""

    def before(num_played: int) -> None:
        engine = app.state.engine
        assert isinstance(engine, TransformersEngine)
        if num_played == 5:  # the first of the third step
            with torch.no_grad():
                for parameter in engine._model.network.parameters():  # type: ignore[union-attr]
                    parameter.add_(0.5 * torch.randn_like(parameter))

    steps: list[StepEvent] = []
    with pytest.raises(Mismatched, match=r"nats a token .* name version 3; grpo.max_mismatch_nats"):
        steps += train(tmp_path, url, before)
    assert len(list((tmp_path / "policy").glob("v*"))) == 3, "nothing was learnt from it"


@pytest.mark.slow
def test_another_trainer_at_the_same_inference_is_caught(tmp_path: Path, url: str) -> None:
    """Its weights land as they should, and no rollout of them is trained on."""
    make_policy_folder(tmp_path / "foreign", seed=5)
    digest = checkpoint.digest(tmp_path / "foreign")

    async def publish() -> None:
        async with InferenceClient(url) as client:
            served = (await client.weight_status()).policy
            assert served is not None
            policy = PolicyVersion(version=served.version + 1, digest=digest)
            await client.update_weights(update_of(tmp_path / "foreign", policy))

    def before(num_played: int) -> None:
        if num_played == 3:
            asyncio.run(publish())

    with pytest.raises(Conflict, match=rf"never published; the last names .* {digest[:12]}"):
        train(tmp_path, url, before, max_failed_groups=8)
