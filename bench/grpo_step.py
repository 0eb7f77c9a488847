"""Compares whole steps of GRPO with TRL's: sampling, reward, update and publication.

    python -m bench.grpo_step prepare /dev/shm/step
    ASSAY_REWARD_RUBRICS=bench/vowels assay up          # with ASSAY_INFERENCE_* of the engine
    assay train bench/grpo_step.yaml policy.folder=/dev/shm/step/model \\
        data.train.path=/dev/shm/step/train.jsonl data.held_out.path=/dev/shm/step/held_out.jsonl
    python -m bench.grpo_step trl /dev/shm/step --output trl.json
    python -m bench.grpo_step compare trl.json RUN --output bench/results/grpo_step.json

Random weights of 0.36 billion parameters; 64 prompts of 64 words, 8 answers of 256 tokens each
(one in 64 ends earlier: random weights sample the end token too). With `--lengths tail`, 64 of the
16,384 tokens end an answer, so that lengths are about exponential: mean 256 and, with max_tokens
1024 on both sides, up to 1024. Both sides: float32 weights
under bf16, DAPO's loss, learning rate 1e-6, the share of vowels as the reward, which TRL computes
in its own process and Assay over HTTP. `compare` leaves out each side's first steps.
"""

import argparse
import json
import random
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from transformers import GenerationConfig

from bench.shapes import SHAPES, config_of, tokenizer_of, write
from bench.trl_grpo import TrlWork, train
from bench.vowels.vowels import share_of_vowels

_NUM_TASKS, _NUM_HELD_OUT, _PROMPT_WORDS = 4096, 8, 64
#: Mean tokens of an answer of the tail.
_MEAN_LENGTH = 256
#: Steps in which engines compile, caches fill and the first answers are awaited.
_WARM_UP = 3
_NUM_RESAMPLES = 10_000


def prepare(folder: Path, shape: str, device: str, *, has_tail: bool) -> None:
    """Write the model and the tasks."""
    write(shape, folder / "model", device)
    vocabulary = tokenizer_of(SHAPES[shape]).get_vocab()
    words = sorted(word for word in vocabulary if word.isascii() and word.isalpha())
    rng = random.Random(0)
    if has_tail:
        ordinary = [one for one in vocabulary.values() if one >= SHAPES[shape].vocabulary_size // 2]
        ends = rng.sample(ordinary, SHAPES[shape].vocabulary_size // _MEAN_LENGTH - 1)
        end = config_of(SHAPES[shape]).eos_token_id
        config = GenerationConfig(eos_token_id=[end, *ends], pad_token_id=0)
        config.save_pretrained(folder / "model")
    for name, role, number in (
        ("train", "train", _NUM_TASKS),
        ("held_out", "validation", _NUM_HELD_OUT),
    ):
        rows = [
            {
                "id": f"{name}/{index}",
                "dataset": "words",
                "role": role,
                "prompt": " ".join(rng.choices(words, k=_PROMPT_WORDS)),
                "rubric": "vowels",
            }
            for index in range(number)
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)


def train_by_trl(folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of TRL's steps."""
    lines = (folder / "train.jsonl").read_text().splitlines()
    rows = [{"prompt": [{"role": "user", "content": json.loads(line)["prompt"]}]} for line in lines]
    work = TrlWork(
        groups=asked.groups,
        group_size=8,
        max_tokens=asked.max_tokens,
        learning_rate=1e-6,
        updates=asked.updates,
        seconds=asked.seconds,
        micro_rows=asked.micro_rows,
        sampler=asked.sampler,
        server_port=asked.server_port,
    )
    return train(folder / "model", None, rows, lambda text, row: share_of_vowels(text), work)


def step_seconds(run: Path) -> list[dict[str, float]]:
    """Return the times of each step of a run; a step ends where the next one begins."""
    events = map(json.loads, (run / "events.jsonl").read_text().splitlines())
    steps = [event for event in events if event["kind"] == "step"]
    ends = [event["time"] for event in steps]
    names = ("rollouts_s", "update_s", "publish_s", "num_tokens", "tokens_per_s", "length_mean")
    return [
        {"seconds": end - before} | {name: event["data"][name] for name in names}
        for before, end, event in zip(ends, ends[1:], steps[1:], strict=False)
    ]


def compare(trl_file: Path, run: Path) -> dict[str, Any]:
    """Return medians of a step, and their ratio with its bootstrap interval over steps."""
    theirs = json.loads(trl_file.read_text())
    ends = [0.0, *theirs["seconds"]]
    trl = np.diff(ends)[_WARM_UP:]
    steps = step_seconds(run)[_WARM_UP:]
    ours = np.array([step["seconds"] for step in steps])
    rng = np.random.default_rng(0)
    ratios = [
        np.median(rng.choice(trl, len(trl))) / np.median(rng.choice(ours, len(ours)))
        for _ in range(_NUM_RESAMPLES)
    ]
    low, high = np.quantile(ratios, [0.025, 0.975])
    return {
        "trl": {"sampler": theirs["sampler"], "seconds": [round(float(one), 2) for one in trl]},
        "trl_tokens": theirs["sampled_tokens"][_WARM_UP:],
        "assay": steps,
        "median_s": {"trl": float(np.median(trl)), "assay": float(np.median(ours))},
        "median_parts_s": {
            name: statistics.median(step[name] for step in steps)
            for name in ("rollouts_s", "update_s", "publish_s")
        },
        "ratio": {
            "value": float(np.median(trl) / np.median(ours)),
            "low": float(low),
            "high": float(high),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    preparing = verbs.add_parser("prepare")
    preparing.add_argument("folder", type=Path)
    preparing.add_argument("--shape", choices=sorted(SHAPES), default="0.36b")
    preparing.add_argument("--device", default="cpu")
    preparing.add_argument("--lengths", choices=["fixed", "tail"], default="fixed")
    trl = verbs.add_parser("trl")
    trl.add_argument("folder", type=Path)
    trl.add_argument("--output", type=Path, required=True)
    trl.add_argument("--updates", type=int, default=12)
    trl.add_argument("--seconds", type=float, default=1e9, help="end at the first update after")
    trl.add_argument("--groups", type=int, default=64)
    trl.add_argument("--max-tokens", type=int, default=256)
    trl.add_argument("--micro-rows", type=int, default=64)
    trl.add_argument("--sampler", choices=["colocate", "server", "none"], default="colocate")
    trl.add_argument("--server-port", type=int, default=8000, help="of trl vllm-serve")
    comparing = verbs.add_parser("compare")
    comparing.add_argument("trl", type=Path)
    comparing.add_argument("run", type=Path)
    comparing.add_argument("--output", type=Path)
    asked = parser.parse_args()
    if asked.verb == "prepare":
        prepare(asked.folder, asked.shape, asked.device, has_tail=asked.lengths == "tail")
    elif asked.verb == "trl":
        asked.output.write_text(json.dumps(train_by_trl(asked.folder, asked)) + "\n")
    else:
        found = json.dumps(compare(asked.trl, asked.run), indent=1) + "\n"
        print(found)
        if asked.output is not None:
            asked.output.write_text(found)


if __name__ == "__main__":
    main()
