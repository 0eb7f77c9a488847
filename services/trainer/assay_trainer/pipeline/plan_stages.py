"""What each training stage of a plan needs: updates, tokens of a forward pass, memory."""

from collections.abc import Iterator
from pathlib import Path

import torch
from pydantic import BaseModel
from transformers import PreTrainedModel

from assay_trainer.config import DPOConfig, GivenRowsConfig, LoRAConfig, SFTConfig
from assay_trainer.data.tokenization import answered_token_ids
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.given_rows.dpo import pair_token_ids
from assay_trainer.learner.given_rows.training_rows import hold_out, num_updates
from assay_trainer.learner.network.memory import MemoryEstimate, Training, estimate_memory
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.given_rows import clean_demonstrations, clean_pairs
from assay_trainer.pipeline.policy import Policy
from assay_trainer.pipeline.run_sets import RunSets

#: Demonstrations that are tokenised to find the longest.
_MEASURED_ROWS = 1000
_STATM = Path("/proc/self/statm")
#: Of a process on a CPU: what the first update loads, and the allocator's rest. Measured.
_FIRST_UPDATE_BYTES = 350 * 2**20


class MemoryPlan(BaseModel):
    """Memory of the fullest card, in bytes; without a GPU, of the process."""

    #: The stage that needs the most.
    stage: str = "grpo"
    num_cards: int
    estimate: MemoryEstimate
    #: Without a GPU: of the process with its libraries and buffers, without the model.
    process: int = 0
    estimated_total: int
    #: The most in use until the end of the timed update: of the GPU, or of the process.
    measured: int | None = None
    card: int | None = None


class StagePlan(BaseModel):
    """The needs of a stage."""

    stage: str
    num_updates: int
    #: Rows to train on; null for GRPO.
    num_rows: int | None = None
    #: Pairs that are longer than `dpo.max_length`.
    num_left_out: int = 0
    #: Tokens of the largest forward pass, with padding.
    tokens: int
    estimate: MemoryEstimate


def process_bytes() -> int:
    """Return the memory of this process; 0 where the system does not tell."""
    if not _STATM.exists():
        return 0
    return int(_STATM.read_text().split()[1]) * 4096


def stage_plans(run: RunContext, sets: RunSets, policy: Policy) -> Iterator[StagePlan]:
    """Yield the needs of each training stage of the run file.

    Raises:
        DatasetError: no row is left to train on.
    """
    config = run.config
    if config.sft is not None:
        yield _sft(run, sets, policy, config.sft)
    if config.dpo is not None:
        yield _dpo(run, sets, policy, config.dpo)
    if config.grpo is not None:
        on_gpu = run.ranks.device.type == "cuda"
        yield grpo_stage(config.grpo, config.policy.lora, policy[0], run.ranks.size, on_gpu=on_gpu)


def grpo_stage(
    grpo: GRPOConfig,
    lora: LoRAConfig | None,
    model: PreTrainedModel,
    num_cards: int,
    *,
    on_gpu: bool,
) -> StagePlan:
    """Return the needs of GRPO on this number of cards."""
    training = Training(
        tokens=grpo.tokens_per_pack,
        num_cards=num_cards,
        on_gpu=on_gpu,
        lora=lora,
        has_reference=grpo.kl_weight > 0,
        optimiser=grpo.optimiser,
        is_twice=on_gpu and num_cards > 1,
    )
    return StagePlan(
        stage="grpo",
        num_updates=grpo.steps,
        tokens=training.tokens,
        estimate=estimate_memory(model, training),
    )


def memory_plan(run: RunContext, stages: list[StagePlan], process: int) -> MemoryPlan | None:
    """Return the memory of the stage that needs the most; None without a stage."""
    on_gpu = run.ranks.device.type == "cuda"
    card = torch.cuda.mem_get_info(run.ranks.device)[1] if on_gpu else None
    return fullest_stage(stages, run.ranks.size, card, process)


def fullest_stage(
    stages: list[StagePlan], num_cards: int, card: int | None, process: int
) -> MemoryPlan | None:
    """Return the memory of the stage that needs the most; None without a stage.

    Args:
        card: bytes of a GPU; None without GPUs.
        process: bytes of this process before the model was loaded.
    """
    if not stages:
        return None
    fullest = max(stages, key=lambda one: one.estimate.total)
    own = 0 if card is not None else process + _FIRST_UPDATE_BYTES
    return MemoryPlan(
        stage=fullest.stage,
        num_cards=num_cards if fullest.stage == "grpo" else 1,
        estimate=fullest.estimate,
        process=own,
        estimated_total=own + fullest.estimate.total,
        card=card,
    )


def _sft(run: RunContext, sets: RunSets, policy: Policy, config: SFTConfig) -> StagePlan:
    rows, _ = hold_out(
        clean_demonstrations(run, sets, policy, config),
        lambda one: one.task,
        config.validation_share,
        run.config.seed,
        "sft.validation_share",
    )
    longest = max(
        (
            len(answered_token_ids(one.task, one.answer, policy[1])[0])
            for one in rows[:_MEASURED_ROWS]
        ),
        default=0,
    )
    return _given_rows(run, policy[0], "sft", config, len(rows), longest)


def _dpo(run: RunContext, sets: RunSets, policy: Policy, config: DPOConfig) -> StagePlan:
    preferences = clean_pairs(run, sets.preferences, policy)
    ids = pair_token_ids(preferences, *policy, config.max_length)
    kept = [(one, own) for one, own in zip(preferences, ids, strict=True) if own is not None]
    rows, _ = hold_out(
        kept,
        lambda pair: pair[0].task,
        config.held_out_share,
        run.config.seed,
        "dpo.held_out_share",
    )
    longest = max(len(own[0]) + max(len(own[1]), len(own[2])) for _, own in rows)
    found = _given_rows(run, policy[0], "dpo", config, len(rows), 2 * longest)
    return found.model_copy(update={"num_left_out": len(sets.preferences) - len(kept)})


def _given_rows(
    run: RunContext,
    model: PreTrainedModel,
    stage: str,
    config: GivenRowsConfig,
    num_rows: int,
    row_tokens: int,
) -> StagePlan:
    """Return the needs of a stage whose rows have up to `row_tokens` tokens; one process trains."""
    on_gpu = run.ranks.device.type == "cuda"
    at_once = min(config.micro_batch_size or config.batch_size, max(1, num_rows))
    training = Training(
        tokens=at_once * row_tokens,
        on_gpu=on_gpu,
        lora=run.config.policy.lora,
        is_grpo=False,
        is_twice=on_gpu,
    )
    return StagePlan(
        stage=stage,
        num_updates=num_updates(config, num_rows),
        num_rows=num_rows,
        tokens=training.tokens,
        estimate=estimate_memory(model, training),
    )
