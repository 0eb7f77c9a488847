"""Measures steps of GRPO of an adapter, with the engine on the same card: seconds and memory.

    python -m bench.adapter_steps 7b /dev/shm/7b
    python -m bench.adapter_steps 14b /dev/shm/14b --nf4 --runs /tmp/runs
    python -m bench.adapter_steps tiny /tmp/tiny --engine transformers      # without a GPU

Random weights of a known shape, LoRA of rank 16; a step has 16 groups of 8 answers of 256 tokens,
and the share of vowels is the reward. The run is killed after its last step, as its final model is
not wanted. Each version is merged and goes from memory to the engine; with `--transfer folder`, its
adapter's folder does. FOLDER takes a checkpoint, and the runs' folder a copy of its weights, or
up to four with `--transfer folder`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from assay_shared.local.launcher import running_services
from assay_shared.runs.run_folder import RunFolder
from bench.grpo_step import prepare
from bench.shapes import SHAPES
from bench.weight_sync import GpuMemory

_CONTEXT = 1024
_RUN_FILE, _RUBRICS = Path("bench/grpo_step.yaml"), Path("bench/vowels")
_SHOWN = ("step", "rollouts_s", "update_s", "publish_s", "step_s", "num_tokens", "tokens_per_s")
_OF_MEMORY = ("memory_bytes", "recomputed_layers", "moved_share")


def services_of(asked: argparse.Namespace) -> dict[str, str]:
    """Return the settings of the services, with the engine on the trainer's card."""
    options = (
        f"--enforce-eager --max-model-len {_CONTEXT} --gpu-memory-utilization 0.5 "
        f"--kv-cache-memory-bytes {asked.cache_gb * 2**30}"
    )
    settings = {
        "ASSAY_REWARD_RUBRICS": str(_RUBRICS.resolve()),
        "ASSAY_INFERENCE_ENGINE": asked.engine,
        "ASSAY_INFERENCE_MODEL": str(asked.folder / "model"),
        "ASSAY_INFERENCE_WEIGHT_ROOTS": str(asked.runs),
        "ASSAY_INFERENCE_START_TIMEOUT_S": "600",
        "ASSAY_INFERENCE_LOAD_TIMEOUT_S": "300",
        "ASSAY_WEIGHT_TRANSFER": asked.transfer,
    }
    if asked.engine == "vllm":
        settings["ASSAY_INFERENCE_VLLM_PYTHON"] = asked.vllm_python
        settings["ASSAY_INFERENCE_VLLM_ARGUMENTS"] = options
    return settings


def train(asked: argparse.Namespace, environment: dict[str, str]) -> list[dict[str, Any]]:
    """Return the facts of the steps; the run ends with the last one."""
    run = RunFolder(asked.runs / "adapters")
    changes = {
        "policy.folder": asked.folder / "model",
        "data.train.path": asked.folder / "train.jsonl",
        "data.held_out.path": asked.folder / "held_out.jsonl",
        "policy.lora.rank": 16,
        "policy.lora.nf4": str(asked.nf4).lower(),
        "grpo.groups_per_step": 16,
        "grpo.learning_rate": 1e-5,
        "grpo.tokens_per_pack": asked.tokens_per_pack,
        "grpo.steps": asked.steps,
    }
    words = [f"{key}={value}" for key, value in changes.items()]
    command = [sys.executable, "-m", "assay_shared.cli", "train", str(_RUN_FILE), *words]
    ends_at = time.monotonic() + asked.limit_s
    with subprocess.Popen(
        [*command, "--folder", str(run.path)], env=os.environ | environment
    ) as process:
        try:
            while process.poll() is None and time.monotonic() < ends_at:
                if len(steps_of(run)) >= asked.steps:
                    break
                time.sleep(0.5)
        finally:
            process.kill()
    return steps_of(run)


def steps_of(run: RunFolder) -> list[dict[str, Any]]:
    events = [one.data for one in run.read_events() if one.kind == "step"]
    return [{name: one[name] for name in (*_SHOWN, *_OF_MEMORY)} for one in events]


def main() -> None:
    asked = _arguments()
    asked.runs.mkdir(parents=True, exist_ok=True)
    if not (asked.folder / "model" / "config.json").is_file():
        device = "cpu" if asked.engine == "transformers" else "cuda"
        prepare(asked.folder, asked.shape, device, has_tail=False)
    with (
        running_services(asked.runs / "services", num_workers=1, settings=services_of(asked)) as up,
        GpuMemory() as memory,
    ):
        steps = train(asked, up.environment)
    found = {
        "shape": asked.shape,
        "nf4": asked.nf4,
        "engine": asked.engine,
        "transfer": asked.transfer,
        "tokens_per_pack": asked.tokens_per_pack,
        "steps": steps,
        #: Of each card, with the engine.
        "peak_gb": memory.peak_gb,
    }
    print(json.dumps(found, indent=1))
    if asked.output is not None:
        asked.output.write_text(json.dumps(found, indent=1) + "\n")
    if len(steps) < asked.steps:
        raise SystemExit(f"{len(steps)} of {asked.steps} steps: see {asked.runs}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("shape", choices=sorted(SHAPES))
    parser.add_argument("folder", type=Path, help="of the checkpoint and the tasks")
    parser.add_argument("--runs", type=Path, help="folder of the run; FOLDER/runs without it")
    parser.add_argument("--nf4", action="store_true", help="hold the trainer's base in 4 bits")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tokens-per-pack", type=int, default=4096)
    parser.add_argument("--transfer", choices=("direct", "folder"), default="direct")
    parser.add_argument("--cache-gb", type=int, default=12, help="of the engine, in GiB")
    parser.add_argument("--engine", choices=("vllm", "transformers"), default="vllm")
    parser.add_argument("--vllm-python", default=sys.executable)
    parser.add_argument("--limit-s", type=float, default=900, help="of the run")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    asked.folder = asked.folder.resolve()
    asked.runs = (asked.runs or asked.folder / "runs").resolve()
    return asked


if __name__ == "__main__":
    main()
