"""TRL's GRPO as a peer: float32 weights under bf16, DAPO's loss, and the time of each update."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Returns the reward of an answer to a row.
RewardOf = Callable[[str, dict[str, Any]], float]


@dataclass(frozen=True)
class TrlWork:
    """The work of TRL, and how it samples."""

    groups: int
    group_size: int
    max_tokens: int
    learning_rate: float
    seed: int = 0
    #: It ends after this many updates, or at the first update after `seconds`.
    updates: int = 1000
    seconds: float = 1e9
    #: Also write the weights at the first update after each of these times.
    snapshots_s: tuple[float, ...] = ()
    #: Rows of a forward pass.
    micro_rows: int = 64
    #: colocate or server by vLLM, or none: transformers on the CPU.
    sampler: str = "colocate"
    memory_share: float = 0.3
    model_length: int = 2048
    #: Of `trl vllm-serve` on this machine.
    server_port: int = 8000


def train(
    start: Path, output: Path | None, rows: list[dict[str, Any]], reward_of: RewardOf, work: TrlWork
) -> dict[str, Any]:
    """Train by TRL, write the checkpoint to `output` if it is given, and return the figures."""
    warnings.simplefilter("ignore")
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    tokens: list[int] = []
    signals: list[int] = []
    ended: list[float] = []

    def reward(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        keys = rows[0].keys() - {"prompt"}
        found = [
            reward_of(
                answer[-1]["content"],
                {"prompt": prompt[-1]["content"]} | {key: columns[key][at] for key in keys},
            )
            for at, (prompt, answer) in enumerate(zip(prompts, completions, strict=True))
        ]
        tokens.append(sum(map(len, columns["completion_ids"])))
        groups = zip(*[iter(found)] * work.group_size, strict=True)
        signals.append(sum(len(set(group)) > 1 for group in groups))
        return found

    def write(folder: Path) -> None:
        model = AutoModelForCausalLM.from_config(trainer.model.config, dtype=torch.bfloat16)
        model.load_state_dict(trainer.model.state_dict())
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(start).save_pretrained(folder)

    class Clock(TrainerCallback):  # type: ignore[misc]  # transformers has no types
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.monotonic()
            self.snapshots = list(work.snapshots_s)

        def on_step_end(self, _: Any, __: Any, control: Any, **___: Any) -> None:
            ended.append(time.monotonic() - self.began)
            print(f"update {len(ended)}: {ended[-1]:.1f} s, {signals[-1]} with signal", flush=True)
            control.should_training_stop |= ended[-1] >= work.seconds
            if output is not None and self.snapshots and ended[-1] >= self.snapshots[0]:
                write(output / f"update_{len(ended)}")
                del self.snapshots[0]
                self.began += time.monotonic() - self.began - ended[-1]  # writing costs nothing

    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32),
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=str((output or Path("/tmp")) / "trl"),
            max_steps=work.updates,
            per_device_train_batch_size=work.micro_rows,
            gradient_accumulation_steps=max(1, work.groups * work.group_size // work.micro_rows),
            num_generations=work.group_size,
            max_completion_length=work.max_tokens,
            learning_rate=work.learning_rate,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=3,
            epsilon_high=0.28,
            bf16=work.sampler != "none",
            use_cpu=work.sampler == "none",
            gradient_checkpointing=False,
            save_strategy="no",
            report_to=[],
            seed=work.seed,
            **_sampler(work),
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(start),
        callbacks=[Clock()],
    )
    trainer.train()
    if output is not None:
        write(output)
    return {
        "sampler": work.sampler,
        "seconds": ended,
        "sampled_tokens": tokens,
        "groups": work.groups,
        "groups_with_signal": signals,
        "learning_rate": work.learning_rate,
        "seed": work.seed,
    }


def _sampler(work: TrlWork) -> dict[str, Any]:
    if work.sampler == "none":
        return {}
    found: dict[str, Any] = {"use_vllm": True, "vllm_mode": work.sampler}
    if work.sampler == "colocate":
        found |= {
            "vllm_gpu_memory_utilization": work.memory_share,
            "vllm_max_model_length": work.model_length,
        }
    else:
        found |= {"vllm_server_host": "127.0.0.1", "vllm_server_port": work.server_port}
    return found
