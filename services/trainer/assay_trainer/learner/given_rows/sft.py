"""Supervised fine-tuning: from demonstrations to a policy with answers in the right form."""

from collections.abc import Callable
from pathlib import Path

from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.errors import DatasetError
from assay_trainer.config import SFTConfig
from assay_trainer.data.dataset import Demonstration
from assay_trainer.data.tokenization import answered_token_ids
from assay_trainer.learner import checkpoint
from assay_trainer.learner.given_rows.callbacks import AfterSave, ProgressCallback, StopBetweenSteps
from assay_trainer.learner.retention import forget_checkpoints
from assay_trainer.stop import Stop


def train_sft(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    demonstrations: list[Demonstration],
    config: SFTConfig,
    *,
    seed: int,
    checkpoints: Path,
    on_step: Callable[[int, dict[str, float]], None],
    stop: Stop,
    keep_checkpoints: int = 2,
    resume_from: Path | None = None,
) -> None:
    """Train `model` in place, from the checkpoint `resume_from` if there is one.

    Raises:
        Stopped: a stop was requested; the checkpoint is written.
        Diverged: the loss is not finite.
    """
    from assay_trainer.learner.trl_backend import make_sft_trainer

    if not demonstrations:
        raise DatasetError("no training task has a gold answer to learn from", field="sft")
    rows = [
        answered_token_ids(one.task, one.answer, tokenizer, with_history=config.learn_history)
        for one in demonstrations
    ]

    def complete(step: int) -> None:
        checkpoint.complete(checkpoints, step)
        forget_checkpoints(checkpoints, keep_checkpoints, keep_best=False)

    trainer = make_sft_trainer(
        model,
        tokenizer,
        rows,
        config,
        seed=seed,
        folder=checkpoints,
        callbacks=[
            ProgressCallback(on_step),
            StopBetweenSteps(stop),
            AfterSave(complete),
        ],
    )
    trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
    stop.check()
