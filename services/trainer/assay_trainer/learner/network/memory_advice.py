"""Changes for training that runs out of memory, with the savings of each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from assay_shared.errors import EngineFault
from assay_trainer.config import GivenRowsConfig, LoRAConfig, RunConfig
from assay_trainer.learner.network.memory import Training, estimate_memory

_GIB = 2**30
#: Rows of SFT have any length; savings are told for this one.
_ROW_TOKENS = 1024
#: Smaller savings are not worth a line.
_LEAST_SHARE = 0.01
_CPU_MESSAGE = "can't allocate memory"


class MemoryExhausted(EngineFault):
    """Training needs more memory than there is; the hint names settings with their savings."""


@dataclass(frozen=True)
class MemorySaving:
    """A change of the run file, and the bytes it saves of the estimate."""

    change: str
    saved: int
    total: int

    @property
    def told(self) -> str:
        """The change in words."""
        return f"{self.change} saves {self.saved / _GIB:.2f} of {self.total / _GIB:.2f} GiB"


@contextmanager
def memory_told(config: RunConfig, models: Path) -> Iterator[None]:
    """Turn an error about memory into advice.

    Args:
        models: the folder of the run's models, whose sizes decide the savings.

    Raises:
        MemoryExhausted: the block ran out of memory.
    """
    try:
        yield
    except (torch.OutOfMemoryError, RuntimeError) as error:
        on_gpu = isinstance(error, torch.OutOfMemoryError)
        if not on_gpu and _CPU_MESSAGE not in str(error):
            raise
        first = str(error).splitlines()[0][:300]
        savings = [] if (model := _sizes(models)) is None else savings_of(config, model, on_gpu)
        told = "; ".join(one.told for one in savings[:4])
        hint = told or "a smaller micro_batch_size or tokens_per_pack, shorter rows, or policy.lora"
        raise MemoryExhausted(f"out of memory: {first}", hint=hint) from error


def savings_of(config: RunConfig, model: PreTrainedModel, on_gpu: bool) -> list[MemorySaving]:
    """Return changes to save memory of the run's fullest stage, the greatest saving first."""
    stages = [one for one in (_rows(config, "sft"), _rows(config, "dpo"), _grpo(config)) if one]
    stages = [(name, replace(one, on_gpu=on_gpu)) for name, one in stages]
    if not stages:
        return []
    name, now = max(stages, key=lambda one: estimate_memory(model, one[1]).total)
    total = estimate_memory(model, now).total
    found = [
        MemorySaving(change, total - estimate_memory(model, changed).total, total)
        for change, changed in _changes(config, name, now)
    ]
    found = [one for one in found if one.saved > _LEAST_SHARE * total]
    return sorted(found, key=lambda one: -one.saved)


def _changes(config: RunConfig, stage: str, now: Training) -> Iterator[tuple[str, Training]]:
    half = replace(now, tokens=now.tokens // 2)
    if stage == "grpo":
        yield f"grpo.tokens_per_pack={now.tokens // 2}", half
        if now.optimiser != "adamw_8bit":
            yield "grpo.optimiser=adamw_8bit", replace(now, optimiser="adamw_8bit")
        if now.has_reference:
            yield "grpo.kl_weight=0", replace(now, has_reference=False)
    else:
        rows = _micro(config, stage)
        if rows > 1:
            yield f"{stage}.micro_batch_size={rows // 2}", half
        length = now.tokens // (4 * rows)
        yield f"dpo.max_length={length}" if stage == "dpo" else "rows of half the length", half
    if now.lora is None:
        yield "policy.lora={rank: 16}", replace(now, lora=LoRAConfig())
        return
    if now.on_gpu and not now.lora.nf4 and now.lora.targets == "all-linear":
        nf4 = now.lora.model_copy(update={"nf4": True})
        yield "policy.lora.nf4=true", replace(now, lora=nf4)
    if now.lora.rank > 1:
        lower = now.lora.model_copy(update={"rank": now.lora.rank // 2})
        yield f"policy.lora.rank={lower.rank}", replace(now, lora=lower)


def _rows(config: RunConfig, stage: str) -> tuple[str, Training] | None:
    """Return a stage on given rows; None if the run has none."""
    if getattr(config, stage) is None:
        return None
    length = _ROW_TOKENS if config.dpo is None or stage == "sft" else 2 * config.dpo.max_length
    tokens = _micro(config, stage) * length
    lora = config.policy.lora
    return stage, Training(tokens=tokens, lora=lora, is_grpo=False, is_twice=True)


def _micro(config: RunConfig, stage: str) -> int:
    rows: GivenRowsConfig = getattr(config, stage)
    return rows.micro_batch_size or rows.batch_size


def _grpo(config: RunConfig) -> tuple[str, Training] | None:
    if (grpo := config.grpo) is None:
        return None
    return "grpo", Training(
        tokens=grpo.tokens_per_pack,
        lora=config.policy.lora,
        has_reference=grpo.kl_weight > 0,
        optimiser=grpo.optimiser,
    )


def _sizes(models: Path) -> PreTrainedModel | None:
    """Return the newest model of a run without its weights; None if the run has none yet."""
    folders = [one for one in models.glob("*") if (one / "config.json").is_file()]
    if not folders:
        return None
    newest = max(folders, key=lambda one: one.stat().st_mtime)
    with torch.device("meta"):
        found: PreTrainedModel = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(newest)
        )
    return found
