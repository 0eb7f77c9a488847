"""Supervised fine-tuning: from demonstrations to a policy with answers in the right form."""

from collections.abc import Callable, Sequence

from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_trainer.config import SFTConfig
from assay_trainer.data.dataset import Demonstration
from assay_trainer.data.tokenization import answered_token_ids
from assay_trainer.events import SFTStep
from assay_trainer.learner.given_rows.callbacks import StageAttempt, step_facts
from assay_trainer.learner.given_rows.training_rows import num_updates


def train_sft(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    demonstrations: Sequence[Demonstration],
    config: SFTConfig,
    attempt: StageAttempt,
    on_step: Callable[[SFTStep], None],
    validation: Sequence[Demonstration] = (),
) -> None:
    """Train `model` in place. The loss of the demonstrations in `validation` is only measured.

    Raises:
        Stopped, Diverged: see `StageAttempt.train`.
    """
    from assay_trainer.learner.trl_backend import (
        configuration_kept,
        make_sft_trainer,
        validation_loss,
    )

    train_rows, validation_rows = (
        [
            answered_token_ids(one.task, one.answer, tokenizer, with_history=config.learn_history)
            for one in rows
        ]
        for rows in (demonstrations, validation)
    )
    num_steps = num_updates(config, len(train_rows))

    def report(step: int, metrics: dict[str, float]) -> None:
        is_due = step % config.validation_every == 0 or step == num_steps
        loss = validation_loss(trainer) if validation and is_due else None
        on_step(SFTStep(**step_facts(step, metrics), validation_loss=loss))

    rows = (train_rows, validation_rows)
    with configuration_kept(model):
        trainer = make_sft_trainer(model, tokenizer, rows, config, attempt, num_steps, report)
        attempt.train(trainer, num_steps)
