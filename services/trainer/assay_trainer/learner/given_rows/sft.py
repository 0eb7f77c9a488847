"""Supervised fine-tuning: from demonstrations to a policy with answers in the right form."""

from collections.abc import Callable, Sequence
from pathlib import Path

from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.errors import DatasetError
from assay_trainer.config import SFTConfig
from assay_trainer.data.dataset import Demonstration
from assay_trainer.data.tokenization import answered_token_ids
from assay_trainer.events import SFTStep
from assay_trainer.learner.given_rows.callbacks import (
    CompleteCheckpoints,
    ProgressCallback,
    StopBetweenSteps,
)
from assay_trainer.learner.given_rows.training_rows import num_updates
from assay_trainer.stop import Stop


def train_sft(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    demonstrations: Sequence[Demonstration],
    config: SFTConfig,
    *,
    seed: int,
    checkpoints: Path,
    on_step: Callable[[SFTStep], None],
    stop: Stop,
    validation: Sequence[Demonstration] = (),
    keep_checkpoints: int = 2,
    resume_from: Path | None = None,
) -> None:
    """Train `model` in place, from the checkpoint `resume_from` if there is one.

    The loss of the demonstrations in `validation` is measured and not trained on.

    Raises:
        Stopped: a stop was requested; the checkpoint is written.
        Diverged: the loss is not finite.
    """
    from assay_trainer.learner.trl_backend import make_sft_trainer, memory_bytes, validation_loss

    if not demonstrations:
        raise DatasetError("no training task has a gold answer to learn from", field="sft")
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
        on_step(
            SFTStep(
                step=step,
                epoch=metrics["epoch"],
                loss=metrics["loss"],
                learning_rate=metrics["learning_rate"],
                grad_norm=metrics["grad_norm"],
                memory_bytes=memory_bytes(),
                validation_loss=validation_loss(trainer) if validation and is_due else None,
            )
        )

    trainer = make_sft_trainer(
        model,
        tokenizer,
        (train_rows, validation_rows),
        config,
        num_steps=num_steps,
        seed=seed,
        folder=checkpoints,
        callbacks=[
            ProgressCallback(report),
            StopBetweenSteps(stop),
            CompleteCheckpoints(checkpoints, keep_checkpoints),
        ],
    )
    trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
    stop.check()
