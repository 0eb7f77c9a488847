"""The update: its gradient next to TRL's, in every form, for any packing of the rows."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from assay_shared.types import FinishReason, Rollout, RolloutSpan, ScoredGroup
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.given_rows.callbacks import Diverged
from assay_trainer.learner.gradient_facts import GradientFacts
from assay_trainer.learner.network.model import create_policy, load_policy
from assay_trainer.learner.network.sharding import own_part, whole
from assay_trainer.learner.packs import AnswerRow, Pack, pack_rows, rows
from assay_trainer.learner.updater import Updater
from assay_trainer.weights.folder import publish_policy
from tests.support.fakes import POLICY, make_scored_group
from tests.support.policies import TEXTS, TINY
from tests.support.trl_oracle import trl_gradient

Gradient = dict[str, torch.Tensor]
VALUES: dict[str, Any] = {
    "steps": 1,
    "groups_per_step": 2,
    "group_size": 3,
    "max_tokens": 16,
    "temperature": 0.7,
    "max_grad_norm": 1e9,
    "warmup_steps": 0,
}
FORMS: dict[str, dict[str, Any]] = {
    "dapo": {"loss": "dapo"},
    "grpo": {"loss": "grpo"},
    "dr_grpo": {"loss": "dr_grpo"},
    "gspo": {"loss": "gspo"},
    "cispo": {"loss": "cispo"},
    "truncated": {"loss": "dapo", "correction": {"kind": "tis", "high": 1.5}},
    "truncated grpo": {"loss": "grpo", "correction": {"kind": "tis", "high": 1.1}},
    "truncated dr_grpo": {"loss": "dr_grpo", "correction": {"kind": "tis", "high": 3.0}},
    "truncated cispo": {"loss": "cispo", "correction": {"kind": "tis", "high": 1.5}},
    "mis": {"loss": "dapo", "correction": {"kind": "mis", "high": 5.0}},
    "icepop": {"loss": "grpo", "correction": {"kind": "icepop", "low": 0.5, "high": 5.0}},
    "decoupled": {"loss": "dapo", "correction": {"kind": "decoupled"}},
    "sequence mask": {"loss": "dapo", "correction": {"kind": "sequence_mask", "high": 100.0}},
    "off-policy mask": {"loss": "dapo", "correction": {"kind": "off_policy_mask", "low": 0.6}},
    "dapo by sequence": {"loss": "dapo", "average": "sequence"},
    "gspo by constant": {"loss": "gspo", "average": "constant"},
    "dual clip": {"loss": "dapo", "dual_clip": 1.5},
    "kl": {"loss": "grpo", "kl_weight": 0.5},
}
MASKS = ("mis", "icepop", "sequence mask")


def make_config(**changes: Any) -> GRPOConfig:
    return GRPOConfig.model_validate(VALUES | changes)


def make_groups(observed: tuple[float, ...] = ()) -> list[ScoredGroup]:
    """Two groups of three with different lengths, and old log-probs on either side of the clip.

    With `observed`, they are episodes: an environment speaks this number of ids after the
    policy's first two; the values stand in place of these ids' log-probabilities.
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


def make_model(seed: int = 0) -> PreTrainedModel:
    return create_policy(TINY, TEXTS, seed=seed)[0]


def gradient(
    model: PreTrainedModel,
    step_rows: list[AnswerRow],
    config: GRPOConfig,
    tokens_per_pack: int = 10_000,
    reference: PreTrainedModel | None = None,
) -> tuple[GradientFacts, Gradient]:
    updater = Updater(model, config)
    if reference is not None:
        with torch.no_grad():
            assert updater._reference is not None
            for own, other in zip(
                updater._reference.parameters(), reference.parameters(), strict=True
            ):
                own_part(own.detach()).copy_(other)
    facts = updater.backward(pack_rows(step_rows, updater.objective, tokens_per_pack))
    named = updater._model.named_parameters()
    return facts, {name: whole(p.grad).clone() for name, p in named if p.grad is not None}


def distance(found: Gradient, expected: Gradient) -> float:
    """Return the difference of the whole gradients, relative to the expected norm."""
    assert found.keys() == expected.keys()
    gap = sum(float((found[name] - one).square().sum()) for name, one in expected.items())
    return math.sqrt(gap / sum(float(one.square().sum()) for one in expected.values()))


@pytest.mark.parametrize("observed", [(), (0.0, 0.0, 0.0)], ids=["answers", "episodes"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.rule("the loss is TRL's, in every form")
def test_loss_and_gradient_are_trls_however_the_rows_are_packed(
    tmp_path: Path, form: str, observed: tuple[float, ...]
) -> None:
    config = make_config(**FORMS[form])
    step_rows = rows(make_groups(observed))
    reference = make_model(seed=3) if config.kl_weight else None
    model, tokenizer = create_policy(TINY, TEXTS, seed=0)
    loss, expected = trl_gradient(model, tokenizer, step_rows, config, tmp_path, reference)
    for tokens_per_pack in (10_000, 40, 1):
        facts, found = gradient(make_model(), step_rows, config, tokens_per_pack, reference)
        assert facts.loss == pytest.approx(loss, rel=1e-5, abs=1e-6)
        assert distance(found, expected) < 1e-5, tokens_per_pack
        assert (0 < facts.masked_share < 1) == (form in MASKS)
        assert (0 < facts.truncated_weight_share < 1) == form.startswith("truncated")
    assert max(float(one.abs().max()) for one in expected.values()) > 1e-3


@pytest.mark.rule("a switch of the loss changes the loss, and one without effect is seen")
def test_a_clip_bound_changes_the_loss_off_policy_and_nothing_on_policy() -> None:
    """On policy every ratio is 1: two bounds cannot be compared there, and the run says so."""
    for name, groups in (("off", make_groups()), ("on", on_policy(make_groups()))):
        (narrow, small), (wide, large) = (
            gradient(make_model(), rows(groups), make_config(clip_high=bound))
            for bound in (0.05, 0.9)
        )
        if name == "off":
            assert narrow.clipped_high > wide.clipped_high
            assert distance(small, large) > 0.01
        else:
            assert narrow.clipped_low == narrow.clipped_high == wide.clipped_high == 0.0
            assert distance(small, large) < 1e-6


@pytest.mark.parametrize(
    ("form", "changes"),
    [
        ("dapo", {"clip_low": 0.9}),
        ("cispo", {"clip_high": 0.9}),
        ("gspo", {"loss": "grpo"}),
        ("dapo", {"loss": "grpo"}),
        ("dapo", {"dual_clip": 1.5}),
        ("dapo", {"correction": {"kind": "tis", "high": 1.5}}),
        ("truncated", {"correction": {"kind": "tis", "high": 2.0}}),
        ("truncated", {"kl_weight": 0.5}),
        ("dr_grpo", {"max_tokens": 32}),
        ("kl", {"kl_weight": 0.1}),
        ("dapo", {"temperature": 1.0}),
    ],
)
def test_every_switch_acts(form: str, changes: dict[str, Any]) -> None:
    found = [
        gradient(
            make_model(), rows(make_groups()), make_config(**values), reference=other_for(values)
        )[1]
        for values in (FORMS[form], FORMS[form] | changes)
    ]
    assert distance(*found) > 1e-3


def other_for(values: dict[str, Any]) -> PreTrainedModel | None:
    return make_model(seed=3) if values.get("kl_weight") else None


def on_policy(groups: list[ScoredGroup]) -> list[ScoredGroup]:
    """The same samples as if the model itself had drawn them."""
    model = make_model()

    def own(prompt: tuple[int, ...], rollout: Rollout) -> Rollout:
        ids = torch.tensor([[*prompt, *rollout.token_ids]])
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1] / VALUES["temperature"]
        found = logits.log_softmax(-1)
        logprobs = tuple(float(r[i]) for r, i in zip(found, rollout.token_ids, strict=True))
        return rollout.model_copy(update={"logprobs": logprobs})

    return [
        with_rollouts(
            scored, (own(scored.group.prompt_token_ids, one) for one in scored.group.rollouts)
        )
        for scored in groups
    ]


def with_rollouts(scored: ScoredGroup, rollouts: Iterable[Rollout]) -> ScoredGroup:
    group = scored.group.model_copy(update={"rollouts": tuple(rollouts)})
    return scored.model_copy(update={"group": group})


def test_what_an_environment_said_is_read_and_gets_no_gradient() -> None:
    config = make_config()
    _, found = gradient(make_model(), rows(make_groups((0.0, 0.0, 0.0))), config)
    _, other = gradient(make_model(), rows(make_groups((-9.0, -0.1, -4.0))), config)
    assert distance(other, found) < 1e-6
    learnt = [all_sampled(group) for group in make_groups((0.0, 0.0, 0.0))]
    assert distance(gradient(make_model(), rows(learnt), config)[1], found) > 0.01


def all_sampled(scored: ScoredGroup) -> ScoredGroup:
    """The same ids as if the policy had said them all."""
    own = (
        one.model_copy(
            update={"spans": (RolloutSpan(policy=POLICY, num_tokens=len(one.token_ids)),)}
        )
        for one in scored.group.rollouts
    )
    return with_rollouts(scored, own)


def test_at_the_first_step_policy_and_reference_are_equal() -> None:
    _, without = gradient(make_model(), rows(make_groups()), make_config())
    facts, weighted = gradient(make_model(), rows(make_groups()), make_config(kl_weight=0.5))
    assert distance(weighted, without) < 1e-6
    assert facts.kl == pytest.approx(0.0, abs=1e-6)


@pytest.mark.rule("a released checkpoint is trained in float32 and served in its own type")
def test_a_checkpoint_of_16_bits_moves_at_a_small_learning_rate(tmp_path: Path) -> None:
    publish_policy(make_model().bfloat16(), create_policy(TINY, TEXTS, seed=0)[1], tmp_path / "a")
    model, tokenizer = load_policy(tmp_path / "a")
    config = make_config(learning_rate=1e-6)
    updater = Updater(model, config)
    for step in (1, 2, 3):
        packs = pack_rows(rows(make_groups()), updater.objective, 64)
        facts = updater.apply(step, updater.backward(packs))
        assert facts.moved_share > 0.95
    publish_policy(model, tokenizer, tmp_path / "b")
    again, _ = load_policy(tmp_path / "b")
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    config_text = (tmp_path / "b" / "config.json").read_text()
    assert '"dtype": "bfloat16"' in config_text
    for mine, served in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine.bfloat16(), served.bfloat16()), "rounded once, at publication"


def test_weights_in_16_bits_would_stand_still() -> None:
    """The metric shows the earlier failure of released checkpoints."""
    model = make_model().bfloat16()
    updater = Updater(model, make_config(learning_rate=1e-6))
    packs = pack_rows(rows(make_groups()), updater.objective, 64)
    assert updater.apply(1, updater.backward(packs)).moved_share < 0.5


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_gradient_that_is_not_finite_is_never_applied(value: float) -> None:
    model = make_model()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    updater = Updater(model, make_config())
    groups = [
        with_rollouts(
            scored,
            (
                one.model_copy(update={"logprobs": (value, *one.logprobs[1:])})
                for one in scored.group.rollouts
            ),
        )
        for scored in make_groups()
    ]
    with pytest.raises(Diverged, match="is (nan|inf|-inf) in this update; the weights are those"):
        updater.backward(pack_rows(rows(groups), updater.objective, 10_000))
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])


def test_a_resumed_update_continues_to_the_bit(tmp_path: Path) -> None:
    packs = pack_rows(rows(make_groups()), Updater(make_model(), make_config()).objective, 40)
    config = make_config(warmup_steps=4, learning_rate=0.01)
    whole, first = (Updater(model := make_model(), config) for _ in range(2))
    models = {whole: whole._model, first: first._model}
    for step in (1, 2, 3, 4):
        whole.apply(step, whole.backward(packs))
    for step in (1, 2):
        first.apply(step, first.backward(packs))
    first.save(tmp_path).result()
    second = Updater(model := make_model(seed=9), config)
    second.load(tmp_path)
    for step in (3, 4):
        second.apply(step, second.backward(packs))
    pairs = zip(models[whole].parameters(), model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_where_memory_runs_out_activations_are_computed_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gradient is the same as with enough memory; a second lack of memory ends the run."""
    _, expected = gradient(make_model(), rows(make_groups()), make_config(), 10)
    plain = Updater._backward
    num_left = iter([True, False])

    def scarce(self: Updater, pack: Pack) -> torch.Tensor:
        found = plain(self, pack)
        if not next(num_left, True) and not self._model.is_gradient_checkpointing:
            raise torch.OutOfMemoryError("planted")
        return found

    monkeypatch.setattr(Updater, "_backward", scarce)
    model = make_model()
    _, found = gradient(model, rows(make_groups()), make_config(), 10)
    assert model.is_gradient_checkpointing
    assert distance(found, expected) < 1e-6

    def never(self: Updater, pack: Pack) -> torch.Tensor:
        raise torch.OutOfMemoryError("planted")

    monkeypatch.setattr(Updater, "_backward", never)
    with pytest.raises(torch.OutOfMemoryError):
        gradient(make_model(), rows(make_groups()), make_config(), 40)


def test_memory_that_runs_out_in_a_second_update_changes_no_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = make_config(correction="tis", updates_per_step=2, learning_rate=0.01)
    plain, num_left = Updater._backward, iter([True, False])

    def scarce(self: Updater, pack: Pack) -> torch.Tensor:
        sums = plain(self, pack)
        if not next(num_left, True):
            raise torch.OutOfMemoryError("planted")
        return sums

    found: list[Gradient] = []
    for second in (plain, scarce):
        monkeypatch.setattr(Updater, "_backward", plain)
        updater = Updater(make_model(), config)
        packs = pack_rows(rows(make_groups()), updater.objective, 10)
        updater.apply(1, updater.backward(packs))
        monkeypatch.setattr(Updater, "_backward", second)
        facts = updater.backward(packs, again=True)
        assert facts.clipped_low + facts.clipped_high > 0.0
        named = updater._model.named_parameters()
        found.append({name: whole(p.grad).clone() for name, p in named if p.grad is not None})
    assert distance(*found) < 1e-6


def test_the_learning_rate_grows_over_the_warm_up_and_every_step_moves() -> None:
    updater = Updater(make_model(), make_config(warmup_steps=4, learning_rate=0.004))
    packs = pack_rows(rows(make_groups()), updater.objective, 64)
    found = [updater.apply(step, updater.backward(packs)) for step in range(1, 7)]
    rates = [facts.learning_rate for facts in found]
    assert rates == pytest.approx([0.001, 0.002, 0.003, 0.004, 0.004, 0.004])
    assert all(facts.moved_share > 0.95 for facts in found)
