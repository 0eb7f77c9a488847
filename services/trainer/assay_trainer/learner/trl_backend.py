"""SFT by TRL, and TRL's head for log-probabilities; the only file to import TRL."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedModel, PrinterCallback, TrainerCallback
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from trl import SFTConfig as TRLSFTConfig
from trl import SFTTrainer
from trl.trainer.utils import add_fused_lm_head

from assay_trainer.config import SFTConfig

#: What a label is where a token is not to be learnt.
_IGNORED = -100


def make_sft_trainer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[tuple[list[int], list[bool]]],
    config: SFTConfig,
    *,
    seed: int,
    folder: Path,
    callbacks: list[TrainerCallback],
) -> SFTTrainer:
    """Return TRL's SFTTrainer on rows of token ids; it learns only the marked ids."""
    examples = {
        "input_ids": [ids for ids, _ in rows],
        "labels": [
            [token_id if is_learnt else _IGNORED for token_id, is_learnt in zip(*row, strict=True)]
            for row in rows
        ],
    }
    arguments = TRLSFTConfig(
        max_steps=config.steps,
        per_device_train_batch_size=config.batch_size,
        warmup_steps=config.warmup_steps,
        weight_decay=config.weight_decay,
        lr_scheduler_type="cosine",
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
        **_common(config.learning_rate, seed, folder, config.checkpoint_every),
    )
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict(examples),
        processing_class=tokenizer,
        callbacks=callbacks,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def add_logprob_head(model: PreTrainedModel, temperature: float) -> None:
    """Let `model(..., labels=..., fused_lm_head=True)` return log-probabilities and entropies.

    They are of the labels at `temperature`, in nats; the logits of all tokens never exist at once.
    """
    add_fused_lm_head(model, temperature, outputs=("log_probs", "entropy"))


def _common(learning_rate: float, seed: int, folder: Path, save_steps: int) -> dict[str, Any]:
    on_gpu = torch.cuda.is_available()
    return {
        "output_dir": str(folder),
        "learning_rate": learning_rate,
        "seed": seed,
        "save_steps": save_steps,
        "logging_steps": 1,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": not on_gpu,
        "bf16": on_gpu,
        "gradient_checkpointing": on_gpu,
        "dataloader_pin_memory": on_gpu,
    }
