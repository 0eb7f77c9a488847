"""Compares an update of the policy with TRL's on the same answers, in one process on one GPU.

    python -m bench.update 0.5b --lengths tail

Weights of a known shape, random, in float32 on both sides, computed in bf16 with gradient
checkpointing; the same answers, advantages, log-probabilities and objective (DAPO). A round times
an update of each, in alternation: forward, backward, clipped gradient, AdamW. The ratio is TRL's
time over ours of the same round: above 1, ours is faster. Lengths are of the answers, in tokens:
`fixed`, or `tail` with a log-normal tail (sigma 0.8) up to four times the mean.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from assay_shared.types import FinishReason, PolicyVersion, Rollout, RolloutSpan
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.packs import AnswerRow, pack_rows
from assay_trainer.learner.ranks import Ranks
from assay_trainer.learner.updater import Updater, make_updater
from bench.shapes import SHAPES, make_model, tokenizer_of
from tests.support.trl_oracle import padded, trl_trainer

OUTPUT = Path(__file__).parent / "results" / "update.json"
_POLICY = PolicyVersion(version=1, digest="bench")
_PROMPT_TOKENS = 64
#: H100 and H200, dense bf16.
_PEAK_FLOPS = 989e12


@dataclass(frozen=True)
class Work:
    """The answers of a step."""

    num_rows: int
    mean_tokens: int
    lengths: str


def make_rows(work: Work, vocabulary_size: int) -> list[AnswerRow]:
    """Return answers with random ids; their old log-probabilities lie around a random model's."""
    rng = random.Random(0)
    return [
        _row(_length(work, rng), vocabulary_size, (-1.0) ** number, rng)
        for number in range(work.num_rows)
    ]


def _length(work: Work, rng: random.Random) -> int:
    if work.lengths == "fixed":
        return work.mean_tokens
    drawn = rng.lognormvariate(0.0, 0.8) * work.mean_tokens / 1.377  # the mean of that law
    return max(8, min(4 * work.mean_tokens, round(drawn)))


def _row(num_tokens: int, vocabulary_size: int, advantage: float, rng: random.Random) -> AnswerRow:
    rollout = Rollout(
        token_ids=tuple(rng.randrange(3, vocabulary_size) for _ in range(num_tokens)),
        logprobs=tuple(rng.gauss(-11.0, 0.5) for _ in range(num_tokens)),
        text="",
        finish_reason=FinishReason.STOP,
        spans=(RolloutSpan(policy=_POLICY, num_tokens=num_tokens),),
    )
    prompt = tuple(rng.randrange(3, vocabulary_size) for _ in range(_PROMPT_TOKENS))
    return AnswerRow(prompt, rollout, advantage)


def our_update(
    model: PreTrainedModel, rows: Sequence[AnswerRow], config: GRPOConfig, ranks: Ranks
) -> tuple[Updater, Callable[[], float]]:
    """Return the updater, and a function that does an update and returns its loss."""
    updater = make_updater(model, config, ranks)
    packs = pack_rows(rows, updater.objective, config.tokens_per_pack, _POLICY)

    def update() -> float:
        gradient = updater.backward(packs)
        updater.apply(1, gradient)
        return gradient.loss

    return updater, update


def trl_update(
    model: PreTrainedModel, rows: Sequence[AnswerRow], config: GRPOConfig, micro_rows: int
) -> Callable[[], float]:
    """Return a function that does TRL's update in micro-batches and returns its loss."""
    tokenizer = tokenizer_of(SHAPES["tiny"])
    trainer = trl_trainer(model, tokenizer, config, Path(tempfile.mkdtemp()), on_gpu=True)
    device = trainer.accelerator.device
    trainer.create_optimizer()
    network = trainer.accelerator.prepare(trainer.model)
    network.gradient_checkpointing_enable()
    network.train()
    total = torch.tensor(sum(len(row.rollout.token_ids) for row in rows), device=device)
    starts = range(0, len(rows), micro_rows)
    trainer.current_gradient_accumulation_steps = len(starts)
    trainer.args.steps_per_generation = len(starts)
    # As in TRL, a whole batch is padded to its longest row before it is cut.
    whole = {name: one.to(device) for name, one in padded(rows).items()}

    def update() -> float:
        loss = 0.0
        for start in starts:
            inputs: dict[str, Any] = {
                name: one[start : start + micro_rows] if one.dim() else total
                for name, one in whole.items()
            }
            part = trainer._compute_loss(network, inputs)
            trainer.accelerator.backward(part)
            loss += part.item()
        trainer.accelerator.clip_grad_norm_(network.parameters(), config.max_grad_norm)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
        return loss

    return update


def timed(update: Callable[[], float]) -> tuple[float, float]:
    """Return the seconds of an update, and its loss."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    wait()
    began = time.perf_counter()
    loss = update()
    wait()
    return time.perf_counter() - began, loss


def measure(shape: str, work: Work, tokens_per_pack: int, rounds: int) -> dict[str, Any]:
    """Return the times of both sides, with the ratio of each round."""
    rows = make_rows(work, SHAPES[shape].vocabulary_size)
    config = GRPOConfig(steps=1, tokens_per_pack=tokens_per_pack, learning_rate=1e-6)
    longest = max(row.num_tokens for row in rows)
    num_tokens = sum(row.num_tokens for row in rows)
    micro_rows = max(1, tokens_per_pack // longest)
    num_weights = 0
    seconds: dict[str, list[float]] = {"ours": [], "trl": []}
    losses: dict[str, float] = {}
    memory: dict[str, int] = {}
    updates: dict[str, Callable[[], float]] = {}
    for name in seconds:
        model: Any = make_model(SHAPES[shape], "cuda").float()
        num_weights = sum(p.numel() for p in model.parameters())
        if name == "ours":
            _, updates[name] = our_update(model, rows, config, Ranks())
        else:
            updates[name] = trl_update(model, rows, config, micro_rows)
        torch.cuda.reset_peak_memory_stats()
        _, losses[name] = timed(updates[name])
        memory[name] = torch.cuda.max_memory_allocated()
    for _ in range(rounds):
        for name, update in updates.items():
            seconds[name].append(timed(update)[0])
    ratios = sorted(t / o for t, o in zip(seconds["trl"], seconds["ours"], strict=True))
    ours = statistics.median(seconds["ours"])
    return {
        "gpu": torch.cuda.get_device_name(),
        "shape": shape,
        "weights": num_weights,
        "work": asdict(work),
        "tokens": num_tokens,
        "tokens_per_pack": tokens_per_pack,
        "trl_micro_rows": micro_rows,
        "seconds": {name: [round(one, 3) for one in found] for name, found in seconds.items()},
        "first_losses": losses,
        "peak_bytes": memory,
        "tokens_per_s": {
            name: round(num_tokens / statistics.median(found)) for name, found in seconds.items()
        },
        "mfu": round(6 * num_weights * num_tokens / ours / _PEAK_FLOPS, 3),
        "ratio": {
            "median": round(statistics.median(ratios), 2),
            "lowest": round(ratios[0], 2),
            "highest": round(ratios[-1], 2),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shape", choices=sorted(SHAPES))
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--mean-tokens", type=int, default=256)
    parser.add_argument("--lengths", choices=["fixed", "tail"], default="fixed")
    parser.add_argument("--tokens-per-pack", type=int, default=16_384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    asked = parser.parse_args()
    work = Work(asked.rows, asked.mean_tokens, asked.lengths)
    found = measure(asked.shape, work, asked.tokens_per_pack, asked.rounds)
    print(json.dumps(found, indent=1))
    asked.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
