"""TRL's loss, as the measure of ours: the gradient of a batch of padded rows."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.packs import AnswerRow

#: TRL's names of our losses: `loss_type` and `importance_sampling_level`.
_NAMES = {
    "dapo": ("dapo", "token"),
    "grpo": ("grpo", "token"),
    "dr_grpo": ("dr_grpo", "token"),
    "gspo": ("grpo", "sequence"),
    "cispo": ("cispo", "token"),
}
#: TRL's losses that are alike but for the average.
_AVERAGES = {"sequence": "grpo", "token": "dapo", "constant": "dr_grpo"}


def trl_gradient(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[AnswerRow],
    config: GRPOConfig,
    folder: Path,
    reference: PreTrainedModel | None = None,
    proximal: PreTrainedModel | None = None,
) -> tuple[float, dict[str, torch.Tensor]]:
    """Return TRL's loss and its gradient by parameter.

    `reference` is the policy of a KL term, `proximal` that of a correction; the model without it.
    """
    trainer = trl_trainer(model, tokenizer, config, folder)
    inputs = padded(rows)
    if reference is not None:
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        width = inputs["completion_ids"].shape[1]
        with torch.no_grad():
            inputs["ref_per_token_logps"] = logprobs(reference, ids, mask, width, config)
    if config.correction is not None:
        _correct(trainer, inputs, config, proximal or model)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    loss = trainer._compute_loss(trainer.model, inputs)
    trainer.model.zero_grad()
    loss.backward()
    named = trainer.model.named_parameters()
    return loss.item(), {n: p.grad.clone() for n, p in named if p.grad is not None}


def _correct(
    trainer: Any, inputs: dict[str, torch.Tensor], config: GRPOConfig, proximal: PreTrainedModel
) -> None:
    """Have TRL weigh or mask each token as it does the samples of a vLLM that is behind."""
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    with torch.no_grad():
        own = logprobs(proximal, ids, mask, inputs["completion_ids"].shape[1], trainer.args)
    engine = inputs["old_per_token_logps"]
    inputs |= {"old_per_token_logps": own, "sampling_per_token_logps": engine}
    assert config.correction is not None
    low, high = config.correction.low, config.correction.high
    if config.correction.kind == "off_policy_mask":
        assert low is not None
        trainer.off_policy_mask_threshold = -math.log(low)
        return
    gap = (own - engine) * inputs["completion_mask"] * inputs["tool_mask"]
    if config.correction.kind == "sequence_mask":
        gap = gap.sum(dim=-1, keepdim=True)
    ratio = gap.exp()
    if config.correction.kind == "tis":
        ratio = ratio.clamp(max=high)
    elif config.correction.kind != "decoupled":
        ratio[(ratio < (low or 0.0)) | (ratio > (high or math.inf))] = 0.0
    inputs["importance_sampling_ratio"] = ratio
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = True


def logprobs(
    model: PreTrainedModel,
    ids_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    width: int,
    config: Any,
) -> torch.Tensor:
    """Return the log-probabilities of the last `width` tokens of each row."""
    logits: torch.Tensor = (
        model(input_ids=ids_BT, attention_mask=mask_BT).logits / config.temperature
    )
    own: torch.Tensor = logits[:, -width - 1 : -1].log_softmax(dim=-1)
    return own.gather(-1, ids_BT[:, -width:, None])[..., 0]


def trl_trainer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    config: GRPOConfig,
    folder: Path,
    *,
    on_gpu: bool = False,
) -> Any:
    """Return a GRPOTrainer with the run's settings, to call its loss."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # TRL warns of its optional parts
        from trl import GRPOConfig as TRLConfig
        from trl import GRPOTrainer

        loss_type, level = _NAMES[config.loss]
        if config.average is not None:
            loss_type = _AVERAGES[config.average]
        arguments = TRLConfig(
            output_dir=str(folder),
            per_device_train_batch_size=config.group_size,
            num_generations=config.group_size,
            max_completion_length=config.max_tokens,
            temperature=config.temperature,
            loss_type=loss_type,
            importance_sampling_level=level,
            epsilon=config.clip_low,
            # For CISPO, TRL takes the bound of the ratio itself.
            epsilon_high=config.clip_high + (1.0 if config.loss == "cispo" else 0.0),
            delta=config.dual_clip,
            beta=0.0,
            use_cpu=not on_gpu,
            bf16=on_gpu,
            gradient_checkpointing=False,
            report_to=[],
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=lambda **_: [],
            args=arguments,
            train_dataset=Dataset.from_dict({"prompt": [""]}),
            processing_class=tokenizer,
        )
    trainer.beta = config.kl_weight  # with it in the arguments, TRL would load a reference itself
    return trainer


def padded(rows: Sequence[AnswerRow]) -> dict[str, torch.Tensor]:
    """Return the inputs of TRL's loss: prompts padded on the left, answers on the right."""
    prompts = [list(row.prompt_token_ids) for row in rows]
    answers = [list(row.rollout.token_ids) for row in rows]
    num_prompt, num_answer = max(map(len, prompts)), max(map(len, answers))

    def left(values: list[int]) -> list[int]:
        return [0] * (num_prompt - len(values)) + values

    def right(values: list[Any]) -> list[Any]:
        return values + [0] * (num_answer - len(values))

    sampled = [[int(own) for own in row.rollout.sampled_mask] for row in rows]
    return {
        "prompt_ids": torch.tensor([left(p) for p in prompts]),
        "prompt_mask": torch.tensor([left([1] * len(p)) for p in prompts]),
        "completion_ids": torch.tensor([right(a) for a in answers]),
        "completion_mask": torch.tensor([right([1] * len(a)) for a in answers]),
        "tool_mask": torch.tensor([right(own) for own in sampled]),
        "advantages": torch.tensor([row.advantage for row in rows]),
        "old_per_token_logps": torch.tensor(
            [right([float(one) for one in row.rollout.logprobs]) for row in rows]
        ),
        "num_items_in_batch": torch.tensor(sum(map(sum, sampled))),
    }
