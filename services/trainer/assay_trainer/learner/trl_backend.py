"""SFT and DPO by TRL, and TRL's head for log-probabilities; the only file to import TRL."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, PrinterCallback, Trainer
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from trl import DPOConfig as TRLDPOConfig
from trl import DPOTrainer, SFTTrainer
from trl import SFTConfig as TRLSFTConfig
from trl.trainer.utils import add_fused_lm_head

from assay_trainer.config import DPOConfig, GivenRowsConfig, SFTConfig
from assay_trainer.learner.given_rows.callbacks import StageAttempt
from assay_trainer.learner.given_rows.training_rows import LearntIds, PairIds
from assay_trainer.weights.adapter import bare

#: What a label is where a token is not to be learnt.
_IGNORED = -100
_TRL_REFERENCE = "ref"
OnStep = Callable[[int, dict[str, float]], None]


class PairTrainer(DPOTrainer):
    """TRL's DPOTrainer on token ids, with each pair of an update of equal weight."""

    #: `compute_loss` divides by the pairs of the whole update, not of one forward pass.
    loss_is_scaled_for_ga = True

    def _prepare_dataset(self, dataset: Dataset, *_: object) -> Dataset:
        """Return the rows as they are: inference's own token ids."""
        return dataset

    def _precompute_ref_logps(self, dataset: Dataset, *_: object) -> Dataset:
        """Add the log-probabilities under the policy at the start; no second model is kept."""
        logprobs_P2 = _pair_logprobs(self, dataset)
        for column, name in enumerate(("ref_chosen_logps", "ref_rejected_logps")):
            dataset = dataset.add_column(name, logprobs_P2[:, column].tolist())
        return dataset

    def _get_num_items_in_batch(self, batch_samples: list[Any], _: torch.device) -> int:
        return sum(len(batch["input_ids"]) // 2 for batch in batch_samples)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """Return the loss of a forward pass, weighted by its share of the update's pairs."""
        assert num_items_in_batch is not None
        loss = super().compute_loss(model, inputs, return_outputs)  # type: ignore[no-untyped-call]
        return loss * (len(inputs["input_ids"]) // 2 / num_items_in_batch)


def make_sft_trainer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: tuple[Sequence[LearntIds], Sequence[LearntIds]],
    config: SFTConfig,
    attempt: StageAttempt,
    num_steps: int,
    on_step: OnStep,
) -> SFTTrainer:
    """Return TRL's SFTTrainer; it learns only the marked ids.

    Args:
        rows: those to train on, and those for `validation_loss`.
    """
    train, validation = (_labelled(some) if some else None for some in rows)
    trainer = SFTTrainer(
        model=model,
        args=TRLSFTConfig(
            max_length=None,
            dataset_kwargs={"skip_prepare_dataset": True},
            **_common(config, config.learning_rate, num_steps, attempt),
        ),
        train_dataset=train,
        eval_dataset=validation,
        processing_class=_padding(tokenizer, model),
        callbacks=attempt.callbacks(on_step),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _padding(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> PreTrainedTokenizerBase:
    """Return a tokenizer whose padding the model has an embedding for.

    Some checkpoints have a token for it beyond their embedding. Padding is never learnt.
    """
    size = bare(model).get_input_embeddings().num_embeddings
    pad = tokenizer.pad_token_id
    if pad is not None and pad < size:
        return tokenizer
    found = deepcopy(tokenizer)
    found.pad_token = found.eos_token or found.convert_ids_to_tokens(0)
    return found


@contextmanager
def configuration_kept(model: PreTrainedModel) -> Iterator[None]:
    """Restore the model's configuration after the block.

    TRL's trainers switch its cache off, its router's logits on, and change its special tokens.
    """
    network = bare(model)
    kept = [(one, deepcopy(vars(one))) for one in (network.config, network.generation_config)]
    try:
        yield
    finally:
        for one, values in kept:
            vars(one).clear()
            vars(one).update(values)


def make_dpo_trainer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[PairIds],
    config: DPOConfig,
    attempt: StageAttempt,
    num_steps: int,
    on_step: OnStep,
) -> PairTrainer:
    """Return a trainer on `pairs` whose reference is `model` as it is now."""
    trainer = PairTrainer(
        model=model,
        args=TRLDPOConfig(
            beta=config.beta,
            max_length=None,
            precompute_ref_log_probs=True,
            **_common(config, config.learning_rate, num_steps, attempt),
        ),
        train_dataset=_paired(pairs),
        processing_class=_padding(tokenizer, model),
        callbacks=attempt.callbacks(on_step),
    )
    trainer.remove_callback(PrinterCallback)
    if _TRL_REFERENCE in getattr(model, "peft_config", {}):
        # TRL copies an adapter as the reference; the log-probabilities of the start replace it.
        model.delete_adapter(_TRL_REFERENCE)
    return trainer


def validation_loss(trainer: SFTTrainer) -> float:
    """Return the mean loss of the validation rows' learnt tokens, in nats."""
    total, num_tokens = 0.0, 0
    for batch in trainer.get_eval_dataloader():
        total -= float(_row_logprobs(trainer, batch).sum())
        num_tokens += int((batch["labels"][:, 1:] != _IGNORED).sum())
    return total / num_tokens


def answer_logprobs(trainer: PairTrainer, pairs: Sequence[PairIds]) -> torch.Tensor:
    """Return the present log-probabilities of chosen and rejected answers, (pairs, 2), in nats."""
    return _pair_logprobs(trainer, _paired(pairs)) if pairs else torch.empty(0, 2)


def add_logprob_head(model: PreTrainedModel, temperature: float) -> None:
    """Let `model(..., labels=..., fused_lm_head=True)` return log-probabilities and entropies.

    They are of the labels at `temperature`, in nats; the logits of all tokens never exist at once.
    """
    add_fused_lm_head(model, temperature, outputs=("log_probs", "entropy"))


def _labelled(rows: Sequence[LearntIds]) -> Dataset:
    labels = [
        [token_id if is_learnt else _IGNORED for token_id, is_learnt in zip(*row, strict=True)]
        for row in rows
    ]
    return Dataset.from_dict({"input_ids": [ids for ids, _ in rows], "labels": labels})


def _paired(pairs: Sequence[PairIds]) -> Dataset:
    names = ("prompt_ids", "chosen_ids", "rejected_ids")
    return Dataset.from_dict(dict(zip(names, map(list, zip(*pairs, strict=True)), strict=True)))


def _pair_logprobs(trainer: PairTrainer, dataset: Dataset) -> torch.Tensor:
    size = trainer.args.per_device_eval_batch_size
    found = []
    for batch in DataLoader(dataset, size, collate_fn=trainer.data_collator):
        labels = batch["input_ids"].masked_fill(batch["completion_mask"] == 0, _IGNORED)
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        logprobs_2R = _row_logprobs(trainer, inputs | {"labels": labels})
        found.append(torch.stack(logprobs_2R.chunk(2), dim=1))
    return torch.cat(found)


@torch.no_grad()
def _row_logprobs(trainer: Trainer, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the sum of the labels' log-probabilities of each row, (rows), in nats, on the CPU."""
    model: Any = trainer.model
    was_training = model.training
    model.eval()
    inputs = {name: value.to(trainer.args.device) for name, value in batch.items()}
    with trainer.accelerator.autocast():
        output = model(**inputs, use_cache=False, fused_lm_head=True)
    model.train(was_training)
    logprobs_R: torch.Tensor = output.log_probs.sum(dim=1)
    return logprobs_R.double().cpu()


def _common(
    config: GivenRowsConfig, learning_rate: float, num_steps: int, attempt: StageAttempt
) -> dict[str, Any]:
    on_gpu = torch.cuda.is_available()
    rows = config.micro_batch_size or config.batch_size
    return {
        "output_dir": str(attempt.checkpoints),
        "max_steps": num_steps,
        "per_device_train_batch_size": rows,
        "per_device_eval_batch_size": rows,
        "gradient_accumulation_steps": config.batch_size // rows,
        "learning_rate": learning_rate,
        "warmup_steps": config.warmup_steps,
        "weight_decay": config.weight_decay,
        "lr_scheduler_type": "cosine",
        "seed": attempt.seed,
        "save_steps": config.checkpoint_every,
        "logging_steps": 1,
        # The mean of earlier losses would stand in for one that is not finite.
        "logging_nan_inf_filter": False,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": not on_gpu,
        "bf16": on_gpu,
        "gradient_checkpointing": on_gpu,
        "dataloader_pin_memory": on_gpu,
    }
