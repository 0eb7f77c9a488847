"""TRL's loss on the mesh's batches, against the equations written out."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    PreTrainedModel,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from assay_shared.types import FinishReason, Rollout, RolloutSpan, ScoredGroup
from assay_trainer.config import GRPOConfig
from assay_trainer.learner.model import create_policy, load_policy
from assay_trainer.learner.tensors import TensorBatch, collate, rows
from assay_trainer.weights.folder import publish_policy
from tests.support.fakes import POLICY, make_scored_group
from tests.support.policies import TEXTS, TINY

Gradient = dict[str, torch.Tensor]
TEMPERATURE = 0.7
CLIP_LOW, CLIP_HIGH = 0.2, 0.28


class Recorder(TrainerCallback):
    """Keeps the gradient that the optimiser is about to apply."""

    gradient: Gradient

    def on_pre_optimizer_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        self.gradient = gradient_of(kwargs["model"])


def gradient_of(model: PreTrainedModel) -> Gradient:
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def make_groups(observed: tuple[float, ...] = ()) -> list[ScoredGroup]:
    """Two groups of three with different lengths, and old log-probs on either side of the clip.

    With `observed`, they are episodes, in which an environment speaks that many ids after the
    policy's first two; the values stand where those ids have log-probabilities.
    """
    groups = []
    for number, values in enumerate([(1.0, 0.0, 0.5), (0.0, None, 1.0)]):
        rollouts = tuple(make_sample(number, sample, observed) for sample in range(3))
        scored = make_scored_group(f"g{number}", *values)
        changes = {"prompt_token_ids": (11, 12, 13)[number:], "rollouts": rollouts}
        groups.append(scored.model_copy(update={"group": scored.group.model_copy(update=changes)}))
    return groups


def make_sample(number: int, sample: int, observed: tuple[float, ...]) -> Rollout:
    ids = tuple(range(20 + 7 * sample, 23 + 8 * sample + number))
    logprobs = tuple(-5.0 - 0.9 * i for i in range(len(ids)))
    numbers = (2, len(observed), len(ids) - 2)
    spans = zip((POLICY, None, POLICY), numbers, strict=True)
    return Rollout(
        token_ids=(*ids[:2], *range(60, 60 + len(observed)), *ids[2:]),
        logprobs=(*logprobs[:2], *observed, *logprobs[2:]),
        text="",
        finish_reason=FinishReason.STOP,
        spans=tuple(RolloutSpan(policy=by, num_tokens=num) for by, num in spans if num),
    )


def train_once(
    folder: Path, groups: list[ScoredGroup] | None = None, **changes: Any
) -> tuple[Gradient, dict[str, float]]:
    """The gradient of one optimiser step, and what TRL logged of it."""
    from assay_trainer.learner.callbacks import ProgressCallback

    with warnings.catch_warnings():
        warnings.simplefilter("default")  # TRL warns of its own optional parts
        from assay_trainer.learner.trl_backend import make_grpo_trainer, num_micro_batches

        # TRL opens the reference policy of a KL term by the folder the model came from.
        publish_policy(*create_policy(TINY, TEXTS, seed=0), folder / "start")
        model, tokenizer = load_policy(folder / "start")
        values: dict[str, Any] = {
            "steps": 1,
            "groups_per_step": 2,
            "group_size": 3,
            "max_tokens": 16,
            "temperature": TEMPERATURE,
            "max_grad_norm": 1e9,
            "clip_low": CLIP_LOW,
            "clip_high": CLIP_HIGH,
        }
        config = GRPOConfig.model_validate(values | changes)
        batch_rows = rows(groups or make_groups())
        batch = collate(batch_rows, 0, multiple_of=num_micro_batches(config))
        recorder, logged = Recorder(), dict[str, float]()
        trainer = make_grpo_trainer(
            model,
            tokenizer,
            lambda: batch,
            config,
            seed=0,
            folder=folder / "checkpoints",
            callbacks=[recorder, ProgressCallback(lambda _, metrics: logged.update(metrics))],
        )
        trainer.train()
    return recorder.gradient, logged


def reference(loss_type: str, groups: list[ScoredGroup] | None = None) -> tuple[Gradient, float]:
    """DAPO (arXiv 2503.14476, equation 8) or CISPO (arXiv 2506.13585, equation 4), by hand."""
    model, _ = create_policy(TINY, TEXTS, seed=0)
    batch: TensorBatch = collate(rows(groups or make_groups()), 0)
    num_completion = batch.completion_ids_BC.shape[1]
    ids_BT = torch.cat([batch.prompt_ids_BP, batch.completion_ids_BC], dim=1)
    mask_BT = torch.cat([batch.prompt_mask_BP, batch.completion_mask_BC], dim=1)
    logits = model(input_ids=ids_BT, attention_mask=mask_BT).logits / TEMPERATURE
    logprobs_BC = (
        logits[:, -num_completion - 1 : -1]
        .log_softmax(dim=-1)
        .gather(-1, batch.completion_ids_BC[..., None])[..., 0]
    )
    ratio_BC = (logprobs_BC - batch.logprobs_BC).exp()
    advantage_B1 = batch.advantages_B[:, None]
    if loss_type == "dapo":
        clipped_BC = ratio_BC.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
        loss_BC = -torch.minimum(ratio_BC * advantage_B1, clipped_BC * advantage_B1)
    else:
        loss_BC = -ratio_BC.clamp(max=1 + CLIP_HIGH).detach() * advantage_B1 * logprobs_BC
    mask_BC = batch.loss_mask_BC
    loss = (loss_BC * mask_BC).sum() / mask_BC.sum()
    loss.backward()
    return gradient_of(model), loss.item()


def assert_same(found: Gradient, expected: Gradient) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("loss_type", ["dapo", "cispo"])
@pytest.mark.slow
def test_loss_and_gradient_are_those_of_the_paper(tmp_path: Path, loss_type: str) -> None:
    expected, loss = reference(loss_type)
    found, logged = train_once(tmp_path, loss=loss_type)
    assert_same(found, expected)
    assert logged["loss"] == pytest.approx(loss, abs=1e-4)
    assert max(float(g.abs().max()) for g in found.values()) > 1e-3


@pytest.mark.rule("a switch of the loss changes the loss, and one without effect is seen")
@pytest.mark.slow
def test_a_clip_bound_changes_the_loss_off_policy_and_nothing_on_policy(tmp_path: Path) -> None:
    """On policy every ratio is 1: two bounds cannot be compared there, and the run says so."""
    bounds = {"narrow": {"clip_high": 0.05}, "wide": {"clip_high": 0.9}}
    for name, groups in (("off", make_groups()), ("on", on_policy(make_groups()))):
        runs = {k: train_once(tmp_path / name / k, groups, **v) for k, v in bounds.items()}
        fractions = {k: logged["clip_ratio/region_mean"] for k, (_, logged) in runs.items()}
        if name == "off":
            assert fractions["narrow"] > 0
            with pytest.raises(AssertionError):
                assert_same(runs["narrow"][0], runs["wide"][0])
        else:
            assert fractions == {"narrow": 0.0, "wide": 0.0}
            assert_same(runs["narrow"][0], runs["wide"][0])


def on_policy(groups: list[ScoredGroup]) -> list[ScoredGroup]:
    """The same ids with the log-probabilities that the policy itself gives them."""
    model, _ = create_policy(TINY, TEXTS, seed=0)

    def own(prompt: tuple[int, ...], rollout: Rollout) -> Rollout:
        ids = torch.tensor([[*prompt, *rollout.token_ids]])
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1] / TEMPERATURE
        rows = logits.log_softmax(-1)
        found = tuple(float(r[i]) for r, i in zip(rows, rollout.token_ids, strict=True))
        return rollout.model_copy(update={"logprobs": found})

    return [
        with_rollouts(
            scored,
            (own(scored.group.prompt_token_ids, one) for one in scored.group.rollouts),
        )
        for scored in groups
    ]


def with_rollouts(scored: ScoredGroup, rollouts: Iterable[Rollout]) -> ScoredGroup:
    group = scored.group.model_copy(update={"rollouts": tuple(rollouts)})
    return scored.model_copy(update={"group": group})


@pytest.mark.slow
def test_what_an_environment_said_is_read_and_gets_no_gradient(tmp_path: Path) -> None:
    """The loss is over the policy's own ids alone; what stands at the others changes nothing."""
    groups = make_groups(observed=(0.0, 0.0, 0.0))
    expected, loss = reference("dapo", groups)
    found, logged = train_once(tmp_path / "as_played", groups)
    assert_same(found, expected)
    assert logged["loss"] == pytest.approx(loss, abs=1e-4)
    other, _ = train_once(tmp_path / "other_values", make_groups(observed=(-9.0, -0.1, -4.0)))
    assert_same(other, found)
    learnt, _ = train_once(tmp_path / "all_own", [all_sampled(group) for group in groups])
    with pytest.raises(AssertionError):
        assert_same(learnt, found)


def all_sampled(scored: ScoredGroup) -> ScoredGroup:
    """The same ids as if the policy had said them all."""
    own = (
        one.model_copy(
            update={"spans": (RolloutSpan(policy=POLICY, num_tokens=len(one.token_ids)),)}
        )
        for one in scored.group.rollouts
    )
    return with_rollouts(scored, own)


@pytest.mark.parametrize("micro_batch_rows", [3, 2])
@pytest.mark.slow
def test_micro_batches_leave_the_gradient_as_it_is(tmp_path: Path, micro_batch_rows: int) -> None:
    """Five rows are scored; one without any token fills the last micro-batch."""
    whole, _ = train_once(tmp_path / "whole")
    parts, _ = train_once(tmp_path / "parts", micro_batch_rows=micro_batch_rows)
    assert_same(parts, whole)


@pytest.mark.slow
def test_a_kl_weight_pulls_towards_the_first_policy(tmp_path: Path) -> None:
    """At the first step policy and reference are equal, so the penalty's gradient is zero."""
    without, _ = train_once(tmp_path / "without")
    weighted, logged = train_once(tmp_path / "with", kl_weight=0.5)
    assert_same(weighted, without)
    assert logged["kl"] == pytest.approx(0.0, abs=1e-6)
