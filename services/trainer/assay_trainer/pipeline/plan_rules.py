"""What is wrong with a run's settings: a rule for each, by the field's name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from assay_shared.errors import AssayError, ConfigError
from assay_trainer.config import DPOConfig, GivenRowsConfig, PolicyConfig, RunConfig, SFTConfig
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.inert_rules import allows_inert, inert_switches
from assay_trainer.pipeline.tiers import protocol_of_tier

#: Learning rates outside of these are rarely meant: of a new model, of one with weights, of an
#: adapter on such a model.
_USUAL_RATES = {
    "sft": {"new": (1e-4, 3e-2), "full": (1e-6, 1e-3), "adapter": (1e-5, 1e-2)},
    "dpo": {"new": (1e-7, 1e-3), "full": (5e-8, 5e-5), "adapter": (5e-7, 5e-4)},
    "grpo": {"new": (1e-5, 3e-2), "full": (1e-7, 1e-4), "adapter": (1e-6, 1e-3)},
}
_KINDS = {"new": "a new model", "full": "a model that has weights", "adapter": "an adapter"}
_MOST_TRUNCATED = 0.5


class Finding(BaseModel):
    """A sentence about a field of the run file; `refused` if training would end because of it."""

    field: str
    message: str
    refused: bool = False

    @classmethod
    def of(cls, error: AssayError) -> "Finding":
        """Return an error as the finding that training would be refused."""
        hint = f" ({error.hint})" if error.hint else ""
        field = error.field or ""
        return cls(field=field, message=error.message + hint, refused=True)


@dataclass(frozen=True)
class PolicySizes:
    """Tokens of the policy's context, and of the longest prompt for training."""

    context: int | None
    longest_prompt: int


@dataclass(frozen=True)
class SampleFacts:
    """Figures of the sampled groups."""

    share_with_signal: float
    truncated_share: float
    num_failed: int
    num_groups: int
    #: False before SFT: only failures say something about training then.
    is_final: bool


class StageNeeds(Protocol):
    """The part of a stage's plan that rules read."""

    stage: str
    num_updates: int
    num_rows: int | None
    num_left_out: int


Found = Iterator[Finding]
Stage = SFTConfig | DPOConfig | GRPOConfig


def check_settings(config: RunConfig) -> list[Finding]:
    """Return the findings that the run file alone shows."""
    found = [*_held_in_config(config)]
    for name in _USUAL_RATES:
        stage: Stage | None = getattr(config, name)
        if stage is not None:
            found += _learning_rate(name, stage, _kind_of(config.policy))
            if stage.steps is not None:
                found += [
                    *_checkpoints(name, stage, stage.steps),
                    *_warmup(name, stage, stage.steps),
                ]
    if config.grpo is not None:
        for of_grpo in (_staleness, _group_size, _temperature):
            found += of_grpo(config.grpo)
    if config.dpo is not None:
        found += _beta(config.dpo)
    return [*found, *_inert(config)]


def check_updates(config: RunConfig, needs: StageNeeds) -> list[Finding]:
    """Return the findings about the rows of a stage, and about its updates if it has epochs."""
    name = needs.stage
    stage: Stage = getattr(config, name)
    found = [*_few_rows(name, stage, needs), *_left_out(needs)]
    if stage.steps is None:
        for rule in (_checkpoints, _warmup):
            found += rule(name, stage, needs.num_updates)
    return found


def check_sizes(config: RunConfig, sizes: PolicySizes) -> list[Finding]:
    """Return the findings about lengths in tokens."""
    found = [] if config.grpo is None else [*_pack(config.grpo, sizes)]
    return found + check_answer_lengths(config, sizes.context)


def check_answer_lengths(config: RunConfig, context: int | None) -> list[Finding]:
    """Return the findings about answers that leave no room for a prompt in the policy's context."""
    limits = [("evaluation.max_tokens", config.evaluation.max_tokens)]
    if config.grpo is not None:
        limits.append(("grpo.max_tokens", config.grpo.max_tokens))
    for tier in config.evaluation.tiers:
        most = protocol_of_tier(tier).longest_answer
        limits.append((f"evaluation.tiers {tier.name}.protocol.max_tokens", most))
    return [
        Finding(
            field=field,
            message=f"{most} tokens of an answer do not fit the policy's context of {context}",
            refused=True,
        )
        for field, most in limits
        if context is not None and most >= context
    ]


def refuse_long_answers(config: RunConfig, context: int | None) -> None:
    """Refuse a run of such answers.

    Raises:
        ConfigError: an answer alone may be as long as the context; names the field.
    """
    for finding in check_answer_lengths(config, context):
        raise ConfigError(finding.message, field=finding.field)


def check_sample(config: GRPOConfig, facts: SampleFacts) -> list[Finding]:
    """Return the findings about the sampled groups."""
    rules: tuple[Callable[[GRPOConfig, SampleFacts], Found], ...] = (_filled, _truncated, _failed)
    return [finding for rule in rules for finding in rule(config, facts)]


def check_memory(needed: int, available: int | None, stage: str = "grpo") -> list[Finding]:
    """Return the finding about a card that is too small; both in bytes."""
    if available is None or needed <= available:
        return []
    needs = (
        f"training needs about {needed / 2**30:.1f} GiB on a card of {available / 2**30:.1f} GiB: "
    )
    if stage == "grpo":
        message = "activations will be computed twice; a smaller pack or more cards need less"
        return [Finding(field="grpo.tokens_per_pack", message=needs + message)]
    message = "a smaller micro-batch, or policy.lora, needs less"
    return [Finding(field=f"{stage}.micro_batch_size", message=needs + message)]


def _held_in_config(config: RunConfig) -> Found:
    if config.sft is None and config.dpo is None and config.grpo is None:
        message = "there is no sft, dpo or grpo, so the run trains nothing"
        yield Finding(field="grpo", message=message)


def _checkpoints(name: str, stage: Stage, num_steps: int) -> Found:
    if stage.checkpoint_every > num_steps:
        yield Finding(
            field=f"{name}.checkpoint_every",
            message=f"checkpoints are never written: every {stage.checkpoint_every} steps is more "
            f"than {num_steps} steps, so a resume begins the stage again",
        )


def _warmup(name: str, stage: Stage, num_steps: int) -> Found:
    if stage.warmup_steps >= num_steps:
        yield Finding(
            field=f"{name}.warmup_steps",
            message=f"the learning rate grows over {stage.warmup_steps} steps and the stage has "
            f"{num_steps}: it reaches {stage.learning_rate:g} only at the end, if at all",
        )


def _kind_of(policy: PolicyConfig) -> str:
    if policy.new is not None:
        return "new"
    return "full" if policy.lora is None else "adapter"


def _learning_rate(name: str, stage: Stage, kind: str) -> Found:
    low, high = _USUAL_RATES[name][kind]
    if not low <= stage.learning_rate <= high:
        yield Finding(
            field=f"{name}.learning_rate",
            message=f"{stage.learning_rate:g} is outside of the usual {low:g} to {high:g} for "
            f"{_KINDS[kind]}",
        )


def _beta(dpo: DPOConfig) -> Found:
    if not 0.01 <= dpo.beta <= 1:
        yield Finding(
            field="dpo.beta",
            message=f"{dpo.beta:g} is outside of the usual 0.01 to 1: the policy leaves its "
            "reference far behind, or stays at it",
        )


def _inert(config: RunConfig) -> Found:
    is_allowed = allows_inert(config)
    for one in inert_switches(config):
        message = one.reason if is_allowed else one.message
        yield Finding(field=one.field, message=message, refused=not is_allowed)


def _few_rows(name: str, stage: Stage, needs: StageNeeds) -> Found:
    if isinstance(stage, GivenRowsConfig) and (needs.num_rows or 0) < stage.batch_size:
        yield Finding(
            field=f"{name}.batch_size",
            message=f"{stage.batch_size} rows of an update are more than the {needs.num_rows} rows "
            "to train on: every update has all of them",
        )


def _left_out(needs: StageNeeds) -> Found:
    if needs.num_left_out:
        num_pairs = needs.num_left_out + (needs.num_rows or 0)
        yield Finding(
            field="dpo.max_length",
            message=f"{needs.num_left_out} of {num_pairs} pairs are longer and are left out",
        )


def _staleness(grpo: GRPOConfig) -> Found:
    # In one step, more than the default is refused with the switches that cannot act.
    if grpo.max_staleness >= grpo.steps > 1:
        yield Finding(
            field="grpo.max_staleness",
            message=f"{grpo.max_staleness} versions cannot act in {grpo.steps} steps: no token can "
            "be that old",
        )


def _group_size(grpo: GRPOConfig) -> Found:
    if grpo.group_size < 4:
        yield Finding(
            field="grpo.group_size",
            message=f"groups of {grpo.group_size} compare few answers: most groups of a hard or an "
            "easy task have equal rewards; 8 to 16 are usual",
        )


def _temperature(grpo: GRPOConfig) -> Found:
    if not 0.5 <= grpo.temperature <= 1.5:
        yield Finding(
            field="grpo.temperature",
            message=f"{grpo.temperature:g} is outside of the usual 0.5 to 1.5: answers of a group "
            "become equal, or random",
        )


def _pack(grpo: GRPOConfig, sizes: PolicySizes) -> Found:
    longest = sizes.longest_prompt + grpo.max_tokens
    if longest > grpo.tokens_per_pack:
        yield Finding(
            field="grpo.tokens_per_pack",
            message=f"{grpo.tokens_per_pack} tokens are fewer than the longest row's {longest}: "
            "such a row is a pack alone and needs more memory than the setting says",
        )


def _filled(grpo: GRPOConfig, facts: SampleFacts) -> Found:
    expected = facts.share_with_signal * grpo.max_groups_per_step
    if grpo.replace_flat and facts.is_final and 0 < expected < grpo.groups_per_step:
        yield Finding(
            field="grpo.max_groups_per_step",
            message=f"{grpo.max_groups_per_step} groups give about {expected:.1f} with signal, and "
            f"a step wants {grpo.groups_per_step}: most steps will be smaller",
        )


def _truncated(grpo: GRPOConfig, facts: SampleFacts) -> Found:
    if facts.is_final and facts.truncated_share > _MOST_TRUNCATED:
        yield Finding(
            field="grpo.max_tokens",
            message=f"{facts.truncated_share:.0%} of the sampled answers are cut off at "
            f"{grpo.max_tokens} tokens",
        )


def _failed(grpo: GRPOConfig, facts: SampleFacts) -> Found:
    if facts.num_failed:
        yield Finding(
            field="grpo.group_attempts",
            message=f"{facts.num_failed} of {facts.num_groups} sampled groups have answers without "
            "a score: see the services' logs",
        )
