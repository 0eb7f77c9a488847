"""SFT and GRPO by TRL; the only file to import it. TRL owns loss, optimiser and checkpoints.

`ExternalRolloutTrainer` takes its batches from the rollout workers instead of generating them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedModel, PrinterCallback, TrainerCallback
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from trl import GRPOConfig as TRLGRPOConfig
from trl import GRPOTrainer, SFTTrainer
from trl import SFTConfig as TRLSFTConfig

from assay_trainer.config import GRPOConfig, SFTConfig
from assay_trainer.learner.mismatch import MismatchSums
from assay_trainer.learner.tensors import TensorBatch

NextBatch = Callable[[], TensorBatch]
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


def make_grpo_trainer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    next_batch: NextBatch,
    config: GRPOConfig,
    *,
    seed: int,
    folder: Path,
    callbacks: list[TrainerCallback],
) -> "ExternalRolloutTrainer":
    """Return TRL's loss on external batches: a single optimiser step per batch."""
    num_rows = config.groups_per_step * config.group_size
    micro_batches = num_micro_batches(config)
    arguments = TRLGRPOConfig(
        max_steps=config.steps,
        per_device_train_batch_size=num_rows // micro_batches,
        gradient_accumulation_steps=micro_batches,
        steps_per_generation=micro_batches,
        num_generations=config.group_size,
        max_completion_length=config.max_tokens,
        temperature=config.temperature,
        loss_type=config.loss,
        epsilon=config.clip_low,
        # For CISPO, TRL takes the bound of the ratio itself.
        epsilon_high=config.clip_high + (1.0 if config.loss == "cispo" else 0.0),
        beta=config.kl_weight,
        warmup_steps=config.warmup_steps,
        lr_scheduler_type="constant_with_warmup",
        max_grad_norm=config.max_grad_norm,
        ignore_data_skip=True,  # the feed knows where the data stands
        **_common(config.learning_rate, seed, folder, config.checkpoint_every),
    )
    # TRL draws "prompts" from a dataset; ours only tells it that there is another step to do.
    ticks = Dataset.from_dict({"prompt": [""] * config.groups_per_step})
    trainer = ExternalRolloutTrainer(
        next_batch=next_batch,
        model=model,
        args=arguments,
        train_dataset=ticks,
        processing_class=tokenizer,
        callbacks=callbacks,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def num_micro_batches(config: GRPOConfig) -> int:
    num_rows = config.groups_per_step * config.group_size
    return num_rows // (config.micro_batch_rows or num_rows)


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


class ExternalRolloutTrainer(GRPOTrainer):
    """GRPOTrainer fed from outside: advantages and old log-probabilities come with the batch."""

    def __init__(self, *, next_batch: NextBatch, **arguments: Any) -> None:
        super().__init__(reward_funcs=_never_called, **arguments)
        self._next_batch = next_batch
        self._logprobs_BC = torch.empty(0)
        self.mismatch = MismatchSums()

    def save_now(self) -> None:
        """Write a checkpoint of the last finished step; nothing if there is none."""
        if self.state.global_step > 0:
            self._save_checkpoint(self.model, trial=None)  # type: ignore[no-untyped-call]
            self.callback_handler.on_save(self.args, self.state, self.control)

    def _generate_and_score_completions(self, inputs: object) -> dict[str, torch.Tensor]:
        batch = self._next_batch()
        self.mismatch = MismatchSums()
        device = self.accelerator.device
        tensors = {
            "prompt_ids": batch.prompt_ids_BP.to(device),
            "prompt_mask": batch.prompt_mask_BP.to(device),
            "completion_ids": batch.completion_ids_BC.to(device),
            "completion_mask": batch.completion_mask_BC.to(device),
            # TRL's name for what it multiplies the completion mask with in the loss.
            "tool_mask": batch.loss_mask_BC.to(device),
            "advantages": batch.advantages_B.to(device),
            "old_per_token_logps": batch.logprobs_BC.to(device),
            "fresh_mask": batch.fresh_mask_BC.to(device),  # ours: TRL splits it with the others
            "num_items_in_batch": batch.loss_mask_BC.sum().to(device),
        }
        if self.beta != 0.0:
            tensors["ref_per_token_logps"] = self._reference_logprobs(tensors)
        return tensors

    def _get_per_token_logps_and_entropies(self, *arguments: Any, **options: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*arguments, **options)
        self._logprobs_BC = found[0].detach()
        return found

    def _compute_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return TRL's loss and record the mismatch.

        Each batch gets a single optimiser step, so the log-probabilities computed for the loss
        belong to the current weights; they are compared with the engine's.
        """
        loss: torch.Tensor = super()._compute_loss(model, inputs)  # type: ignore[no-untyped-call]
        self.mismatch.add(self._logprobs_BC, inputs["old_per_token_logps"], inputs["fresh_mask"])
        return loss

    def measure(self, batch: TensorBatch) -> None:
        """Add the fresh tokens of a batch to the mismatch without training on it."""
        device = self.accelerator.device
        ids = torch.cat([batch.prompt_ids_BP, batch.completion_ids_BC], dim=1).to(device)
        mask = torch.cat([batch.prompt_mask_BP, batch.completion_mask_BC], dim=1).to(device)
        with torch.no_grad():
            logprobs_BC, *_ = self._get_per_token_logps_and_entropies(
                self.model, ids, mask, batch.completion_ids_BC.shape[1]
            )
        self.mismatch.add(logprobs_BC, batch.logprobs_BC.to(device), batch.fresh_mask_BC.to(device))

    def _reference_logprobs(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        ids = torch.cat([tensors["prompt_ids"], tensors["completion_ids"]], dim=1)
        mask = torch.cat([tensors["prompt_mask"], tensors["completion_mask"]], dim=1)
        with torch.no_grad():
            logprobs, _, _ = self._get_per_token_logps_and_entropies(
                self.ref_model, ids, mask, tensors["completion_ids"].shape[1]
            )
        return logprobs  # type: ignore[no-any-return]


def _never_called(**_: object) -> list[float | None]:
    raise AssertionError("rewards come from the mesh")
