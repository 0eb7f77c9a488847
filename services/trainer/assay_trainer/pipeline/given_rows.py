"""The stages of a run that train on given rows: SFT on demonstrations, DPO on preferences."""

import math
from collections.abc import Sequence

from assay_shared.errors import DatasetError
from assay_shared.types import Task
from assay_trainer.config import DPOConfig, SFTConfig
from assay_trainer.data.control_tokens import with_control_tokens
from assay_trainer.data.dataset import Demonstration
from assay_trainer.data.preferences import Preference
from assay_trainer.data.tokenization import refused_by_template, too_long_to_learn
from assay_trainer.events import DPOMeasured, GivenRowsStep
from assay_trainer.learner import checkpoint
from assay_trainer.learner.given_rows.callbacks import StageAttempt
from assay_trainer.learner.given_rows.dpo import pair_token_ids, train_dpo
from assay_trainer.learner.given_rows.sft import train_sft
from assay_trainer.learner.given_rows.training_rows import hold_out, num_updates
from assay_trainer.learner.network.context import context_of
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.policy import (
    Policy,
    adapted,
    best_or_last,
    newest_checkpoint,
    stage_model,
)
from assay_trainer.pipeline.run_sets import RunSets
from assay_trainer.pipeline.tiers import Tiers

_STATUS_EVERY = 10


def run_sft(
    run: RunContext, sets: RunSets, policy: Policy, config: SFTConfig, tiers: Tiers
) -> Policy:
    """Return the policy after SFT on the run's demonstrations, or its best checkpoint."""
    seed = run.config.seed
    given = clean_demonstrations(run, sets, policy, config)
    rows, validation = hold_out(
        given,
        lambda one: one.task,
        config.validation_share,
        seed,
        "sft.validation_share",
    )
    num_steps = num_updates(config, len(rows))

    def train() -> Policy:
        trained = adapted(run, policy, dropout=True)
        train_sft(
            *trained,
            rows,
            config,
            _attempt(run, "sft", tiers),
            on_step=lambda step: _record(run, "sft_step", step, num_steps),
            validation=validation,
        )
        return best_or_last(run, tiers, "sft", trained)

    with run.stage("sft", num_steps):
        return stage_model(run, "sft", train)


def run_dpo(
    run: RunContext, sets: RunSets, policy: Policy, config: DPOConfig, tiers: Tiers
) -> Policy:
    """Return the policy after DPO on the run's preferences, or its best checkpoint."""
    seed = run.config.seed
    preferences = clean_pairs(run, sets.preferences, policy)
    ids = pair_token_ids(preferences, *policy, config.max_length)
    pairs = [(one, own) for one, own in zip(preferences, ids, strict=True) if own is not None]
    rows, held_out = hold_out(
        pairs, lambda pair: pair[0].task, config.held_out_share, seed, "dpo.held_out_share"
    )
    num_steps = num_updates(config, len(rows))

    def on_measured(measured: DPOMeasured) -> None:
        run.record("dpo_measured", **measured.model_dump(mode="json"))

    def train() -> Policy:
        trained = adapted(run, policy)
        train_dpo(
            *trained,
            [own for _, own in rows],
            config,
            _attempt(run, "dpo", tiers),
            on_step=lambda step: _record(run, "dpo_step", step, num_steps),
            on_measured=on_measured,
            held_out=[own for _, own in held_out],
        )
        return best_or_last(run, tiers, "dpo", trained)

    with run.stage("dpo", num_steps):
        if len(pairs) < len(ids):
            run.record("pairs_left_out", num_pairs=len(ids) - len(pairs), reason="too long")
        return stage_model(run, "dpo", train)


def clean_demonstrations(
    run: RunContext, sets: RunSets, policy: Policy, config: SFTConfig
) -> list[Demonstration]:
    """Return the demonstrations with an answer, without a control token, within the context.

    The tasks of the others are set aside.

    Raises:
        DatasetError: too many are, or nothing is left to learn.
    """

    def chosen() -> list[Demonstration]:
        return sets.demonstrations.usable.demonstrations(
            config.demonstrations_per_task, config.mistake_rate, run.config.seed
        )

    given = chosen()
    rows = [(one.task, (one.answer,)) for one in given]
    unclean = with_control_tokens(rows, policy[1])
    run.record("channel_checked", stage="sft", num_rows=len(rows), num_unclean=len(unclean))
    refused = refused_by_template((one.task for one in given), policy[1])
    refused += _without_answer(given, with_history=config.learn_history)
    bad = {task.id for task, _ in refused}
    context = context_of(policy[0].config)
    if context is not None:
        answered = [(one.task, one.answer) for one in given if one.task.id not in bad]
        with_history = config.learn_history
        refused += too_long_to_learn(answered, policy[1], context, with_history=with_history)
    sets.demonstrations.set_aside.add_all([*unclean, *refused])
    found = chosen() if unclean or refused else given
    if not found:
        raise DatasetError(
            "no training task has a gold answer to learn from",
            field="sft",
            hint="give tasks a `gold`, or name demonstrations in data.demonstrations",
        )
    return found


def _without_answer(
    given: Sequence[Demonstration], *, with_history: bool
) -> list[tuple[Task, str]]:
    """Return the tasks with an empty answer, which SFT would learn as an end at once."""
    found = []
    for one in given:
        replies = {message.content for message in one.task.history if message.role == "assistant"}
        if not one.answer.strip():
            found.append((one.task, "its `gold` is empty: leave the field out, or give an answer"))
        elif with_history and not all(map(str.strip, replies)):
            found.append((one.task, "a reply in its `history` is empty, and is not to be learnt"))
    return found


def clean_pairs(
    run: RunContext, preferences: Sequence[Preference], policy: Policy
) -> list[Preference]:
    """Return the pairs of two answers, without a control token, that the chat template takes.

    Raises:
        DatasetError: too many are left out.
    """
    rows = [(one.task, (one.chosen, one.rejected)) for one in preferences]
    unclean = with_control_tokens(rows, policy[1])
    run.record("channel_checked", stage="dpo", num_rows=len(rows), num_unclean=len(unclean))
    refused = refused_by_template((one.task for one in preferences), policy[1])
    equal = [
        (one.task, "chosen and rejected are equal")
        for one in preferences
        if one.chosen == one.rejected
    ]
    found = {"control tokens": unclean, "chat template": refused, "equal answers": equal}
    left_out = {task.id for some in found.values() for task, _ in some}
    if len(left_out) > math.ceil(run.config.data.max_set_aside_share * len(rows)):
        task, reason = (unclean or refused or equal)[0]
        raise DatasetError(
            f"{len(unclean)} of {len(rows)} pairs have control tokens, the chat template refuses "
            f"{len(refused)}, and {len(equal)} have equal answers; {task.id}: {reason}",
            field="data.max_set_aside_share",
            hint="take the chat template's tokens, unknown roles and pairs without a difference "
            "out of the rows",
        )
    for why, some in found.items():
        if some:
            run.record("pairs_left_out", num_pairs=len(some), reason=why)
    return [one for one in preferences if one.task.id not in left_out]


def _record(run: RunContext, kind: str, step: GivenRowsStep, num_steps: int) -> None:
    run.record(kind, **step.model_dump(mode="json"))
    if step.step % _STATUS_EVERY == 0 or step.step in (1, num_steps):
        run.set_status(step=step.step)


def _attempt(run: RunContext, stage: str, tiers: Tiers) -> StageAttempt:
    """Return the next attempt at a stage, and record that later steps of earlier ones are void."""
    found = newest_checkpoint(run, stage)
    if any(event.kind == f"{stage}_step" for event in run.folder.read_events()):
        run.record("resumed", stage=stage, step=checkpoint.step_of(found[0]) if found else 0)
    if found is not None:
        tiers.catch_up(stage)
    return StageAttempt(
        run.config.seed,
        run.folder.checkpoints / stage,
        run.stop,
        run.config.retention.checkpoints,
        found[0] if found else None,
        lambda step: tiers.after_checkpoint(stage, step),
    )
