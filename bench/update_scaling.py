"""Measures how an update's speed grows with the GPUs: FSDP2, the same answers, attestation.

    python -m bench.shapes 7b /dev/shm/7b --device cuda
    python -m bench.update_scaling 7b /dev/shm/7b --gpus 0,1,2,3 --output four.json
    python -m bench.update_scaling 7b /dev/shm/7b --gpus 0,1 --output two.json

A step has 816 answers of 256 tokens after prompts of 64: sixteen full packs of 16,384 tokens. An
update is forward, backward, clipped gradient, AdamW. Fingerprints are those of a publication, of
the sharded weights, in bf16. The first update is left out.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.network.model import load_policy
from assay_trainer.learner.ranks import Ranks, joined
from assay_trainer.learner.throughput import mfu
from bench.shapes import SHAPES
from bench.update import Work, make_rows, our_update, timed

_FINGERPRINTS = 3


def measure(
    shape: str, folder: Path, work: Work, tokens_per_pack: int, rounds: int, ranks: Ranks
) -> dict[str, Any]:
    """Return the times of updates and fingerprints, and what they say of speed and memory."""
    rows = make_rows(work, SHAPES[shape].vocabulary_size)
    num_tokens = sum(row.num_tokens for row in rows)
    config = GRPOConfig(steps=1, tokens_per_pack=tokens_per_pack, learning_rate=1e-6)
    began = time.perf_counter()
    model = load_policy(folder)[0]
    updater, update = our_update(model, rows, config, ranks)
    loaded_s = time.perf_counter() - began
    on_gpu = ranks.device.type == "cuda"
    first_s, loss = timed(update)
    seconds = [timed(update)[0] for _ in range(rounds)]
    fingerprints = [
        timed(lambda: len(updater.fingerprints(torch.bfloat16)))[0] for _ in range(_FINGERPRINTS)
    ]
    tokens_per_s = num_tokens / statistics.median(seconds)
    return {
        "gpu": torch.cuda.get_device_name() if on_gpu else "none",
        "ranks": ranks.size,
        "shape": shape,
        "work": vars(work),
        "tokens": num_tokens,
        "tokens_per_pack": tokens_per_pack,
        "loaded_s": round(loaded_s, 1),
        "first_s": round(first_s, 3),
        "first_loss": loss,
        "seconds": [round(one, 3) for one in seconds],
        "fingerprints_s": [round(one, 3) for one in fingerprints],
        "peak_bytes_of_rank_0": torch.cuda.max_memory_allocated() if on_gpu else None,
        "recomputed_layers": updater._recomputation.num_layers,
        "tokens_per_s": round(tokens_per_s),
        "mfu": mfu(model, tokens_per_s, ranks),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("shape", choices=sorted(SHAPES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpus", help="such as 0,1; without it, one GPU, or the CPU")
    parser.add_argument("--rows", type=int, default=816)
    parser.add_argument("--mean-tokens", type=int, default=256)
    parser.add_argument("--lengths", choices=["fixed", "tail"], default="fixed")
    parser.add_argument("--tokens-per-pack", type=int, default=16_384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    work = Work(asked.rows, asked.mean_tokens, asked.lengths)
    gpus = [int(one) for one in asked.gpus.split(",")] if asked.gpus else []
    with joined(gpus) as ranks:
        found = measure(asked.shape, asked.folder, work, asked.tokens_per_pack, asked.rounds, ranks)
    print(json.dumps(found, indent=1))
    if asked.output is not None:
        asked.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
