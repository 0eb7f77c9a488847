"""Witnesses of the objective's fields: batches whose gradient a field changes, or must leave.

The gradient is that of the whole step, summed over its updates, of a tiny policy with random
weights.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from transformers import PreTrainedModel

from assay_shared.types import FinishReason, Rollout, RolloutSpan, ScoredGroup
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.network.model import create_policy
from assay_trainer.learner.packs import pack_rows, rows
from assay_trainer.learner.updater import Updater
from tests.support.fakes import POLICY, make_scored_group
from tests.support.policies import TEXTS, TINY

StepGradient = dict[str, torch.Tensor]
#: Returns the gradient of a step under these settings.
ObjectiveBatch = Callable[[GRPOConfig], StepGradient]

BASE: dict[str, Any] = {
    "steps": 1,
    "groups_per_step": 2,
    "group_size": 3,
    "max_tokens": 16,
    "learning_rate": 0.005,
    "max_grad_norm": 1e9,
    "warmup_steps": 0,
    "loss": "dapo",
}
#: Lengths of the samples, by group.
_UNEQUAL, _EQUAL, _ONE = ((2, 5, 9), (3, 4, 7)), ((4, 4, 4),) * 2, ((1, 1, 1),) * 2
_REWARDS, _FLAT = ((1.0, 0.0, 0.5), (0.0, 0.25, 1.0)), ((1.0, 1.0, 1.0),) * 2


@dataclass(frozen=True)
class ObjectiveWitness:
    """A field's other value, with a batch on which it acts and one that it may not change."""

    name: str
    value: object
    acts_on: str
    acts: ObjectiveBatch
    idle_on: str
    idle: ObjectiveBatch
    #: Settings of both sides.
    base: Mapping[str, object] = field(default_factory=dict)
    idle_base: Mapping[str, object] = field(default_factory=dict)

    def changes(self) -> tuple[float, float]:
        """Return how much the field changes the gradient: where it acts, and where it is idle."""
        return (
            self._change(self.acts, self.base),
            self._change(self.idle, {**self.base, **self.idle_base}),
        )

    def _change(self, batch: ObjectiveBatch, base: Mapping[str, object]) -> float:
        return relative_change(*(batch(_config({**BASE, **base, **one})) for one in self._sides()))

    def _sides(self) -> tuple[dict[str, object], dict[str, object]]:
        return {}, {self.name: self.value}


def _config(values: dict[str, object]) -> GRPOConfig:
    """Return a configuration, at a temperature that a run may not have too."""
    temperature = {"temperature": values.pop("temperature")} if "temperature" in values else {}
    return GRPOConfig.model_validate(values).model_copy(update=temperature)


def relative_change(before: StepGradient, after: StepGradient) -> float:
    """Return the norm of the difference over the norm before, which may be 0."""
    gap = sum(float((after[name] - one).square().sum()) for name, one in before.items())
    size = sum(float(one.square().sum()) for one in before.values())
    return float((gap / size) ** 0.5) if size > 1e-20 else float(gap**0.5)


def step_gradient(
    config: GRPOConfig,
    *,
    lengths: tuple[tuple[int, ...], ...] = _UNEQUAL,
    rewards: tuple[tuple[float, ...], ...] = _REWARDS,
    on_policy: bool = False,
    is_moved: bool = True,
) -> StepGradient:
    """Return the gradient of a step of made-up samples.

    Args:
        on_policy: whether the engine's log-probabilities are the policy's own.
        is_moved: whether the policy differs from the reference.
    """
    model = _model(0)
    updater = Updater(model, config)
    if updater._reference is not None and is_moved:
        updater._reference.load_state_dict(_model(3).state_dict(), strict=False)
    groups = [
        _group(number, own, values, model if on_policy else None, config.temperature)
        for number, (own, values) in enumerate(zip(lengths, rewards, strict=True))
    ]
    packs = pack_rows(rows(groups, config.normalise), updater.objective, 24)
    found: StepGradient = {}
    for number in range(config.updates_per_step):
        facts = updater.backward(packs, again=number > 0)
        for name, one in updater._model.named_parameters():
            assert one.grad is not None
            found[name] = found.get(name, 0.0) + one.grad.clone()
        updater.apply(1, facts)
    return found


def _model(seed: int) -> PreTrainedModel:
    return copy.deepcopy(_made(seed))


@cache
def _made(seed: int) -> PreTrainedModel:
    return create_policy(TINY, TEXTS, seed=seed)[0]


def _group(
    number: int,
    lengths: tuple[int, ...],
    rewards: tuple[float, ...],
    sampler: PreTrainedModel | None,
    temperature: float,
) -> ScoredGroup:
    prompt = (11, 12, 13)[number:]
    rollouts = []
    for sample, length in enumerate(lengths):
        ids = tuple(range(20 + 11 * sample + 40 * number, 20 + 11 * sample + 40 * number + length))
        if sampler is None:
            # On both sides of the policy's own, which are near -5.8.
            logprobs = tuple(-5.0 - 1.7 * ((at + sample) % 2) for at in range(length))
        else:
            logprobs = _own(sampler, prompt, ids, temperature)
        spans = (RolloutSpan(policy=POLICY, num_tokens=length),)
        rollouts.append(
            Rollout(
                token_ids=ids,
                logprobs=logprobs,
                text="",
                finish_reason=FinishReason.STOP,
                spans=spans,
            )
        )
    scored = make_scored_group(f"g{number}", *rewards)
    changes = {"prompt_token_ids": prompt, "rollouts": tuple(rollouts)}
    return scored.model_copy(update={"group": scored.group.model_copy(update=changes)})


def _own(
    model: PreTrainedModel, prompt: tuple[int, ...], ids: tuple[int, ...], temperature: float
) -> tuple[float, ...]:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
    found = (logits / temperature).log_softmax(-1)
    return tuple(float(row[one]) for row, one in zip(found, ids, strict=True))


_OFF = "off-policy tokens", step_gradient
_ON = "on-policy tokens", partial(step_gradient, on_policy=True)
_LONG_AND_SHORT = "unequal lengths", step_gradient
_SAME_LENGTH = "equal lengths", partial(step_gradient, lengths=_EQUAL)
_NO_ADVANTAGE = "equal rewards", partial(step_gradient, rewards=_FLAT)
_MOVED = "a policy moved from the reference", step_gradient
_START = "the reference itself", partial(step_gradient, is_moved=False)
_SINGLE = "answers of a token", partial(step_gradient, lengths=_ONE)
_TWICE = {"correction": "tis", "updates_per_step": 2}
_TWICE_OFF = "a step's second update", step_gradient
_ONCE_OFF = "a step's first update", step_gradient
_ONCE = {"updates_per_step": 1}

OBJECTIVE_WITNESSES = (
    ObjectiveWitness("loss", "grpo", *_LONG_AND_SHORT, *_SAME_LENGTH),
    ObjectiveWitness(
        "loss",
        "dr_grpo",
        *_LONG_AND_SHORT,
        "answers of max_tokens",
        _SAME_LENGTH[1],
        idle_base={"max_tokens": 4},
    ),
    ObjectiveWitness("loss", "cispo", *_OFF, *_ON),
    ObjectiveWitness("loss", "gspo", *_OFF, *_ON, base={"loss": "grpo"}),
    ObjectiveWitness("loss", "reinforce", *_OFF, *_ON, base={"loss": "dr_grpo"}),
    ObjectiveWitness("loss", "dgro", *_OFF, *_ON, base={"loss": "reinforce"}),
    ObjectiveWitness("average", "sequence", *_LONG_AND_SHORT, *_SAME_LENGTH),
    ObjectiveWitness("average", "token", *_LONG_AND_SHORT, *_SAME_LENGTH, base={"loss": "grpo"}),
    ObjectiveWitness(
        "average",
        "constant",
        *_LONG_AND_SHORT,
        "answers of max_tokens",
        _SAME_LENGTH[1],
        idle_base={"max_tokens": 4},
    ),
    ObjectiveWitness("clip_low", 0.7, *_OFF, *_ON),
    ObjectiveWitness("clip_low", 0.001, *_TWICE_OFF, *_ONCE_OFF, base=_TWICE, idle_base=_ONCE),
    ObjectiveWitness("clip_high", 2.0, *_OFF, *_ON),
    ObjectiveWitness("clip_high", 0.001, *_TWICE_OFF, *_ONCE_OFF, base=_TWICE, idle_base=_ONCE),
    ObjectiveWitness("clip_high", 0.9, *_OFF, *_ON, base={"loss": "cispo"}),
    ObjectiveWitness("dual_clip", 1.3, *_OFF, *_ON),
    ObjectiveWitness("policy_weight", 2.0, *_OFF, *_NO_ADVANTAGE, base={"loss": "dgro"}),
    ObjectiveWitness("distance_weight", 1.0, *_OFF, *_ON, base={"loss": "dgro"}),
    ObjectiveWitness("kl_weight", 0.5, *_MOVED, *_START),
    ObjectiveWitness("kl_estimator", "k1", *_MOVED, *_SINGLE, base={"kl_weight": 0.5}),
    ObjectiveWitness(
        "entropy_weight",
        0.5,
        "tokens of unequal likelihood",
        step_gradient,
        "tokens of equal likelihood",
        step_gradient,
        idle_base={"temperature": 1e6},
    ),
    ObjectiveWitness("updates_per_step", 2, *_OFF, *_NO_ADVANTAGE),
    *(
        ObjectiveWitness("correction", kind, *_OFF, *_ON)
        for kind in ("tis", "mis", "icepop", "decoupled", "sequence_mask", "off_policy_mask")
    ),
    ObjectiveWitness(
        "correction", {"kind": "tis", "high": 1.2}, *_OFF, *_ON, base={"correction": "tis"}
    ),
    ObjectiveWitness(
        "correction", {"kind": "icepop", "low": 0.1}, *_OFF, *_ON, base={"correction": "icepop"}
    ),
)
