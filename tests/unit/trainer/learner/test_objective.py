"""Each part of the objective next to its equation, written out sequence by sequence."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from assay_trainer.learner.network.model import create_policy
from assay_trainer.learner.packs import AnswerRow, pack_rows, rows
from assay_trainer.learner.updater import Updater
from tests.support.policies import TEXTS, TINY
from tests.support.trl_oracle import trl_gradient
from tests.unit.trainer.learner.test_updater import (
    VALUES,
    Gradient,
    distance,
    gradient,
    make_config,
    make_groups,
    make_model,
    on_policy,
    with_rollouts,
)


class Sequence:
    """A sampled sequence: its tokens' log-probabilities under each policy, and its advantage."""

    def __init__(self, row: AnswerRow, model: PreTrainedModel, reference: PreTrainedModel) -> None:
        self.advantage = row.advantage
        own = torch.tensor(row.rollout.sampled_mask)
        self.engine = torch.tensor(row.rollout.logprobs)[own]
        logits = scores(model, row)[own]
        ids = torch.tensor(row.rollout.token_ids)[own]
        self.logp = logits.log_softmax(-1).gather(1, ids[:, None])[:, 0]
        self.entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)
        with torch.no_grad():
            other = scores(reference, row)[own].log_softmax(-1)
        self.reference = other.gather(1, ids[:, None])[:, 0]

    def __len__(self) -> int:
        return len(self.logp)


def scores(model: PreTrainedModel, row: AnswerRow) -> Tensor:
    ids = torch.tensor([[*row.prompt_token_ids, *row.rollout.token_ids]])
    found: Tensor = model(input_ids=ids).logits[0, len(row.prompt_token_ids) - 1 : -1]
    return found / float(VALUES["temperature"])


def by_hand(
    step_rows: list[AnswerRow],
    loss: Callable[[list[Sequence]], Tensor],
    model: PreTrainedModel | None = None,
) -> tuple[float, Gradient]:
    model, reference = model or make_model(), make_model(seed=3)
    found = loss([Sequence(row, model, reference) for row in step_rows])
    model.zero_grad()
    found.backward()
    named = model.named_parameters()
    return found.item(), {name: p.grad.clone() for name, p in named if p.grad is not None}


def reinforce(sequences: list[Sequence]) -> Tensor:
    return mean([-one.advantage * one.logp.sum() for one in sequences])


def mean(values: list[Tensor]) -> Tensor:
    """The mean over sequences, by the constant length."""
    return torch.stack(values).mean() / float(VALUES["max_tokens"])


def truncated_reinforce(sequences: list[Sequence]) -> Tensor:
    parts = []
    for one in sequences:
        weight = (one.logp.detach() - one.engine).exp().clamp(max=1.5)
        parts.append(-one.advantage * (weight * one.logp).sum())
    return mean(parts)


def dgro(sequences: list[Sequence]) -> Tensor:
    parts = []
    for one in sequences:
        distance_from_engine = (one.logp.sum() - one.engine.sum()) ** 2 / 2
        parts.append(-2.0 * one.advantage * one.logp.sum() + 0.3 * distance_from_engine)
    return mean(parts)


def entropy(sequences: list[Sequence]) -> Tensor:
    bonus = torch.cat([one.entropy for one in sequences]).mean()
    return reinforce(sequences) - 20.0 * bonus


BY_HAND: dict[str, tuple[dict[str, Any], Callable[[list[Sequence]], Tensor]]] = {
    "reinforce": ({"loss": "reinforce"}, reinforce),
    "truncated reinforce": (
        {"loss": "reinforce", "correction": {"kind": "tis", "high": 1.5}},
        truncated_reinforce,
    ),
    "dgro": ({"loss": "dgro", "policy_weight": 2.0, "distance_weight": 0.3}, dgro),
}


@pytest.mark.parametrize("observed", [(), (0.0, 0.0, 0.0)], ids=["answers", "episodes"])
@pytest.mark.parametrize("name", BY_HAND)
def test_losses_that_trl_lacks_are_their_equations(name: str, observed: tuple[float, ...]) -> None:
    changes, loss = BY_HAND[name]
    step_rows = rows(make_groups(observed))
    value, expected = by_hand(step_rows, loss)
    for tokens_per_pack in (10_000, 40, 1):
        facts, found = gradient(make_model(), step_rows, make_config(**changes), tokens_per_pack)
        assert facts.loss == pytest.approx(value, rel=1e-4, abs=1e-6)
        assert distance(found, expected) < 1e-5


def test_an_entropy_bonus_is_the_entropys_own_gradient_and_raises_it() -> None:
    step_rows = rows(make_groups())
    config = make_config(entropy_weight=20.0)
    _, plain = gradient(make_model(), step_rows, make_config())
    _, found = gradient(make_model(), step_rows, config)
    _, of_bonus = by_hand(step_rows, lambda some: entropy(some) - reinforce(some))
    added = {name: one - plain[name] for name, one in found.items()}
    assert distance(added, of_bonus) < 1e-4
    entropies = {weight: entropy_after_updates(weight) for weight in (0.0, 1.0)}
    assert entropies[1.0] > entropies[0.0] + 0.02


def entropy_after_updates(weight: float) -> float:
    """Return the entropy after some updates from a policy that is far from uniform."""
    model = make_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    updater = Updater(model, make_config(entropy_weight=weight, learning_rate=0.003))
    packs = pack_rows(rows(make_groups()), updater.objective, 10_000)
    for step in (1, 2, 3, 4):
        updater.apply(step, updater.backward(packs))
    return updater.backward(packs).entropy


def kl_as_reward(sequences: list[Sequence]) -> Tensor:
    """k1 of this and all later tokens, as a penalty on what this token is worth."""
    parts, number = [], sum(map(len, sequences))
    for one in sequences:
        penalty = (one.logp - one.reference).detach()
        ratio = (one.logp - one.engine).exp()
        parts += [ratio[at] * penalty[at:].sum() for at in range(len(one))]
    return torch.stack(parts).sum() / number


def kl_of_tokens(sequences: list[Sequence]) -> Tensor:
    """The gradient of each token's own KL, weighed by its ratio: that of k2, and of k3."""
    parts, number = [], sum(map(len, sequences))
    for one in sequences:
        penalty = (one.logp - one.reference).detach()
        parts.append((one.logp - one.engine).exp().detach() * penalty * one.logp)
    return torch.cat(parts).sum() / number


@pytest.mark.parametrize(
    ("estimator", "loss"), [("k1", kl_as_reward), ("k2", kl_of_tokens), ("k3", kl_of_tokens)]
)
@pytest.mark.parametrize("tokens_per_pack", [10_000, 40, 1])
def test_the_kl_has_its_right_gradient_and_its_share_is_told(
    estimator: str, loss: Callable[[list[Sequence]], Tensor], tokens_per_pack: int
) -> None:
    step_rows = rows(make_groups())
    _, plain = gradient(make_model(), step_rows, make_config())
    config = make_config(kl_weight=0.5, kl_estimator=estimator)
    facts, found = gradient(
        make_model(), step_rows, config, tokens_per_pack, reference=make_model(seed=3)
    )
    added = {name: one - plain[name] for name, one in found.items()}
    _, expected = by_hand(step_rows, lambda some: 0.5 * loss(some))
    assert distance(added, expected) < 1e-4
    assert facts.kl_gradient_share is not None
    assert 0.01 < facts.kl_gradient_share < 0.9


def test_the_estimates_values_are_schulmans_and_k3_has_its_ratio() -> None:
    model, reference = make_model(), make_model(seed=3)
    step_rows = rows(make_groups())
    some = [Sequence(row, model, reference) for row in step_rows]
    gap = torch.cat([one.reference - one.logp for one in some]).detach()
    ratio = torch.cat([(one.logp - one.engine).exp() for one in some]).detach()
    expected = {"k1": -gap, "k2": gap**2 / 2, "k3": ratio * (gap.exp() - 1 - gap)}
    for estimator, values in expected.items():
        config = make_config(kl_weight=0.5, kl_estimator=estimator)
        facts, _ = gradient(make_model(), step_rows, config, reference=reference)
        assert facts.kl == pytest.approx(float(values.mean()), abs=1e-5), estimator


SEVERAL: dict[str, dict[str, Any]] = {
    "against the engine": {"loss": "dapo"},
    "decoupled": {"loss": "dapo", "correction": {"kind": "tis", "high": 1.5}},
    "decoupled gspo": {"loss": "gspo", "correction": {"kind": "mis", "high": 5.0}},
    "decoupled cispo": {"loss": "cispo", "correction": {"kind": "tis", "high": 1.5}},
    "with a dual clip": {"loss": "grpo", "correction": {"kind": "decoupled"}, "dual_clip": 1.4},
}


@pytest.mark.parametrize("form", SEVERAL)
@pytest.mark.parametrize("tokens_per_pack", [10_000, 40])
def test_a_second_update_is_trls_with_the_proximal_policy_of_the_first(
    tmp_path: Path, form: str, tokens_per_pack: int
) -> None:
    config = make_config(**SEVERAL[form], updates_per_step=2, learning_rate=0.005)
    step_rows = rows(make_groups((0.0, 0.0)))
    updater = Updater(make_model(), config)
    packs = pack_rows(step_rows, updater.objective, tokens_per_pack)
    updater.apply(1, updater.backward(packs))
    measured = updater.mismatch.sums_4.clone()
    moved = copy.deepcopy(updater._model).eval()
    facts = updater.backward(packs, again=True)
    found = {name: p.grad for name, p in updater._model.named_parameters() if p.grad is not None}
    model, tokenizer = create_policy(TINY, TEXTS, seed=0)
    model.load_state_dict(moved.state_dict())
    loss, expected = trl_gradient(
        model, tokenizer, step_rows, config, tmp_path, proximal=make_model()
    )
    assert facts.loss == pytest.approx(loss, rel=1e-4, abs=1e-6)
    assert distance(found, expected) < 1e-5
    assert torch.equal(updater.mismatch.sums_4, measured), "of the weights that sampled"


def test_with_a_correction_a_clip_acts_from_the_second_update_on() -> None:
    config = make_config(correction="tis", updates_per_step=3, learning_rate=0.01)
    updater = Updater(make_model(), config)
    packs = pack_rows(rows(make_groups()), updater.objective, 40)
    clipped = []
    for number in range(3):
        facts = updater.backward(packs, again=number > 0)
        clipped.append(facts.clipped_low + facts.clipped_high)
        updater.apply(1, facts)
    assert clipped[0] == 0.0
    assert clipped[1] > 0.0
    assert clipped[2] > 0.0


def test_a_step_of_one_update_keeps_nothing_of_the_step_before() -> None:
    updater = Updater(make_model(), make_config(correction="tis", learning_rate=0.01))
    packs = pack_rows(rows(make_groups()), updater.objective, 40)
    for step in (1, 2):
        facts = updater.backward(packs)
        assert facts.clipped_low == facts.clipped_high == 0.0, "the ratio is 1 again"
        updater.apply(step, facts)


def test_bad_sequences_that_the_policy_hardly_samples_are_masked_as_trl_does(
    tmp_path: Path,
) -> None:
    """An engine that was surer of its tokens than the trainer is: by two nats a token."""
    surer = [
        with_rollouts(
            scored,
            (
                one.model_copy(update={"logprobs": tuple(p + 2.0 for p in one.logprobs)})
                for one in scored.group.rollouts
            ),
        )
        for scored in make_groups()
    ]
    config = make_config(correction={"kind": "off_policy_mask", "low": 0.6})
    model, tokenizer = create_policy(TINY, TEXTS, seed=0)
    loss, expected = trl_gradient(model, tokenizer, rows(surer), config, tmp_path)
    facts, found = gradient(make_model(), rows(surer), config, 40)
    assert facts.loss == pytest.approx(loss, rel=1e-5, abs=1e-6)
    assert distance(found, expected) < 1e-5
    assert 0.1 < facts.masked_share < 0.9


def test_on_policy_weights_are_one_and_nothing_is_masked_or_cut() -> None:
    for kind in ("tis", "mis", "icepop", "decoupled", "sequence_mask", "off_policy_mask"):
        step_rows = rows(on_policy(make_groups()))
        facts, found = gradient(make_model(), step_rows, make_config(correction=kind))
        assert facts.importance_weight_mean == pytest.approx(1.0, abs=1e-5)
        assert facts.masked_share == facts.truncated_weight_share == 0.0
        assert distance(found, gradient(make_model(), step_rows, make_config())[1]) < 1e-5


def test_the_spread_of_weights_is_that_of_lengths() -> None:
    spreads = {
        average: gradient(make_model(), rows(make_groups()), make_config(average=average))[0]
        for average in ("sequence", "token", "constant")
    }
    lengths = [len(row.rollout.token_ids) for row in rows(make_groups())]
    weights = torch.tensor([1 / length for length in lengths for _ in range(length)])
    expected = float(weights.std(correction=0) / weights.mean())
    assert expected > 0.1
    assert spreads["sequence"].token_weight_spread == pytest.approx(expected, rel=1e-4)
    for average in ("token", "constant"):
        assert spreads[average].token_weight_spread == pytest.approx(0.0, abs=1e-3)
    assert math.isfinite(expected)
