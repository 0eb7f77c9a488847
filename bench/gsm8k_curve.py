"""Trains on GSM8K by GRPO for a given time, and scores checkpoints of that run while it trains.

    python -m bench.gsm8k_curve RUN/models/sft RUN2 --seconds 1200 --at 240 660 900 --seed 1

The start is a model after SFT, made as `bench.gsm8k_vs_trl` says; the services are up. At each time
the newest checkpoint is scored by a separate engine on the same GPU, which slows the run. The start
is scored first, and the checkpoint of the run's end last.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, median
from typing import Any

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.evaluate.policy.places import checkpoints_of
from bench import gsm8k_vs_trl
from bench.gsm8k_training import training

#: Steps in a row of the training's part.
_ROW_STEPS = 20
_SCORE_LIMIT_S = 600.0


def score(folder: Path, asked: argparse.Namespace) -> Path:
    """Score a model's folder in a separate process; return the file of its passed samples.

    Raises:
        CalledProcessError, TimeoutExpired: it failed, or took too long.
    """
    options = ["--samples", str(asked.samples), "--memory-share", str(asked.memory_share)]
    command = [asked.engine_python, "-m", "bench.gsm8k_vs_trl", "--results", str(asked.results)]
    subprocess.run(
        [*command, "evaluate", str(folder), *options], check=True, timeout=_SCORE_LIMIT_S
    )
    return gsm8k_vs_trl.result_file(asked.results, folder)


def score_newest(run: RunFolder, asked: argparse.Namespace) -> tuple[int, Path]:
    """Score the newest checkpoint of a run; return its step and the file of its passed samples."""
    newest = checkpoints_of(run)[-1]
    assert newest.step is not None
    folder = asked.results / f"step_{newest.step}"
    if not folder.exists():
        gsm8k_vs_trl.write_folder(f"{run.path}:{newest.step}", folder)
    return newest.step, score(folder, asked)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the curve: `evaluated` by checkpoint, and `training` in rows of steps."""
    settings = (f"seed={asked.seed}", "grpo.checkpoint_every=40", *asked.settings)
    with ThreadPoolExecutor(1) as pool, training(asked.start, asked.run, settings) as trained:
        scored = [pool.submit(lambda: (0, score(asked.start, asked)))]
        for second in sorted(asked.at):
            trained.wait_until(second, scored)
            scored.append(pool.submit(score_newest, trained.run, asked))
        trained.wait_until(asked.seconds, scored)
        trained.stop()
        scored.append(pool.submit(score_newest, trained.run, asked))
        by_step = dict(one.result() for one in scored)
        steps = trained.steps()
    table = gsm8k_vs_trl.compare(list(by_step.values()))
    evaluated = []
    for step, row in zip(by_step, table, strict=True):
        done = [one for one in steps if one["step"] <= step]
        tokens = sum((one["num_generated"] or 0) * (one["length_mean"] or 0.0) for one in done)
        facts = {"seconds": done[-1]["seconds"] if done else 0.0, "sampled_tokens": round(tokens)}
        evaluated.append({"step": step} | facts | _from_start(row))
    return {"evaluated": evaluated, "training": list(_rows(steps))}


def _from_start(row: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's accuracies, and their differences from the first checkpoint's."""
    found: dict[str, Any] = {}
    for name in ("greedy", "sampled"):
        differences = [value for key, value in row.items() if key.startswith(f"{name} - ")]
        found |= {name: row[name], f"{name}_minus_start": (differences or [None])[0]}
    return found


def _rows(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for first in range(0, len(steps), _ROW_STEPS):
        part = steps[first : first + _ROW_STEPS]
        rates = [one["pass_rate"] for one in part if one["pass_rate"] is not None]
        yield {
            "steps": f"{part[0]['step']}-{part[-1]['step']}",
            "seconds": part[-1]["seconds"],
            "mean_pass_rate": round(mean(rates), 4) if rates else None,
            "median_step_s": round(median(one["step_s"] for one in part), 2),
            "mean_num_played": round(mean(one["num_played"] for one in part), 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("start", type=Path, help="a model after SFT")
    parser.add_argument("run", type=Path, help="the new run's folder")
    parser.add_argument("settings", nargs="*", help="of the run, such as grpo.group_size=4")
    parser.add_argument("--seconds", type=float, default=1200.0, help="of GRPO")
    parser.add_argument("--at", type=float, nargs="*", default=[], help="s; score then")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=4, help="of each test task")
    parser.add_argument("--memory-share", type=float, default=0.05, help="of the GPU, to score")
    parser.add_argument("--engine-python", default=sys.executable, help="has vLLM")
    parser.add_argument("--results", type=Path, default=Path("gsm8k_curve"))
    asked = parser.parse_args()
    asked.results.mkdir(parents=True, exist_ok=True)
    found = {"command": " ".join(["python -m bench.gsm8k_curve", *sys.argv[1:]])} | measure(asked)
    (asked.results / "gsm8k_curve.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["evaluated"], indent=1))


if __name__ == "__main__":
    main()
