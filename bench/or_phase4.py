"""Runs the study of OR debugging on one host: SFT on its card, five arms in lanes, a curriculum.

    python -m bench.or_phase4 OUT --lanes 4
    python -m bench.or_phase4 OUT --lanes 1 --per-cell 20 --medium 40 --sft-steps 20 --steps 1

Files of configs/or_phase4; the arms have their own models of type D, medium. A lane is a set of
services with CPU engines, as the policy is small, and its own cores. Parts that OUT holds already
are not done again. OUT/rows.json has the reports of the ablation, the curriculum and its control.
Needs Linux (core affinity).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from assay_shared.local.launcher import running_services

_FILES = Path("configs/or_phase4")
_CLI = (sys.executable, "-m", "assay_shared.cli")
_NO_CARD = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "2"}
#: The arm of curriculum and control where no arm has won.
_ARM = "run_1_no_kl"
_STAGES = {
    "easy": ("easy",),
    "easy_medium": ("easy", "medium"),
    "medium_hard": ("medium", "hard"),
    "hard": ("hard",),
}
_ALL = ("easy", "medium", "hard")


def main() -> None:
    asked = _arguments()
    began = time.monotonic()
    models = _generate(asked, "models", "--per-cell", str(asked.per_cell), "--seed", "2026")
    medium = _generate(
        asked, "medium", "--per-cell", str(asked.medium), "--seed", "2027",
        "--types", "D", "--difficulties", "medium",
    )  # fmt: skip
    print(f"{time.monotonic() - began:.0f} s: models", flush=True)
    policy = _sft(asked, models)
    print(f"{time.monotonic() - began:.0f} s: SFT", flush=True)
    with ExitStack() as stack:
        lanes = [_lane(stack, asked, number) for number in range(asked.lanes)]
        _ablate(asked, medium / "type_D_medium", policy, lanes)
        print(f"{time.monotonic() - began:.0f} s: arms", flush=True)
        _curriculum_and_control(asked, models, lanes)
    rows = {name: _report(asked.output / name) for name in ("ablation", "curriculum", "mixed")}
    (asked.output / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{time.monotonic() - began:.0f} s: all", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--lanes", type=int, default=4, help="runs at once")
    parser.add_argument("--per-cell", type=int, default=200, help="models of each cell")
    parser.add_argument("--medium", type=int, default=1000, help="models of the arms")
    parser.add_argument("--sft-steps", type=int, default=2500)
    parser.add_argument("--steps", type=int, default=15, help="steps of an arm")
    parser.add_argument("--stage-steps", type=int, default=10, help="steps of each stage")
    parser.add_argument("--seeds", default="1,2,3,4")
    return parser.parse_args()


def _run(words: Sequence[str], environment: Mapping[str, str], *, fails: bool = False) -> None:
    """Run a command of the product. Exit code 1 is a verdict where `fails` is set."""
    print("assay", *words, flush=True)
    code = subprocess.run([*_CLI, *words], env=os.environ | environment, check=False).returncode
    if code and not (fails and code == 1):
        raise SystemExit(f"assay {words[0]} ended with {code}")


def _generate(asked: argparse.Namespace, name: str, *words: str) -> Path:
    folder: Path = asked.output / name
    if not folder.is_dir():
        shown = ("--shown", "size", "--max-turns", "5", "--confirm", "none")
        _run(("or-debug", "generate", "--output", str(folder), *words, *shown), {})
    return folder


def _sft(asked: argparse.Namespace, models: Path) -> Path:
    folder: Path = asked.output / "sft"
    if not (folder / "report.json").is_file():
        demonstrations = asked.output / "demonstrations.jsonl"
        mistakes = ("--mistake-rate", "0.4")
        _run(
            ("or-debug", "demonstrate", str(models), "--output", str(demonstrations), *mistakes), {}
        )
        settings = (
            f"data.train.path={models}", f"data.held_out.path={models}",
            f"data.demonstrations.path={demonstrations}", f"sft.steps={asked.sft_steps}",
        )  # fmt: skip
        with running_services(asked.output / "services-sft", settings=_roots(asked)) as mesh:
            words = ("train", str(_FILES / "sft.yaml"), *settings, "--folder", str(folder))
            _run(words, mesh.environment)
    return folder / "models" / "sft"


def _lane(stack: ExitStack, asked: argparse.Namespace, number: int) -> dict[str, str]:
    """Start the services of a lane on its share of the cores, and return their variables."""
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // asked.lanes)
    os.sched_setaffinity(0, cores[number * share : (number + 1) * share] or cores)
    try:
        home = asked.output / f"services-{number}"
        settings = _NO_CARD | _roots(asked)
        mesh = stack.enter_context(running_services(home, num_workers=2, settings=settings))
    finally:
        os.sched_setaffinity(0, cores)
    return mesh.environment | _NO_CARD | {"ASSAY_RUNS": str(asked.output.resolve())}


def _roots(asked: argparse.Namespace) -> dict[str, str]:
    """Let inference read the weights of all runs of the study."""
    return {"ASSAY_INFERENCE_WEIGHT_ROOTS": str(asked.output.resolve())}


def _ablate(
    asked: argparse.Namespace, medium: Path, policy: Path, lanes: Sequence[Mapping[str, str]]
) -> None:
    folder: Path = asked.output / "ablation"
    if (folder / "report.json").is_file():
        return
    options = []
    for number, lane in enumerate(lanes):
        file = asked.output / f"lane-{number}.env"
        file.write_text("".join(f"{name}={value}\n" for name, value in lane.items()))
        options += ["--lane", str(file)]
    if (folder / "ablation.json").is_file():
        words = ("ablate", "--resume", str(folder))
    else:
        overrides = {
            "policy.folder": str(policy.resolve()),
            "data.train.path": str(medium.resolve()),
            "data.held_out.path": str(medium.resolve()),
            "grpo.steps": asked.steps,
        }
        settings = (f"overrides={json.dumps(overrides)}", f"seeds=[{asked.seeds}]")
        words = (
            "ablate", str(_FILES / "ablation.yaml"), *settings, "--folder", str(folder),
        )  # fmt: skip
    _run((*words, *options), lanes[0], fails=True)


def _curriculum_and_control(
    asked: argparse.Namespace, models: Path, lanes: Sequence[Mapping[str, str]]
) -> None:
    """Train both for as many updates, at once if there are two lanes."""
    winner = json.loads((asked.output / "ablation" / "report.json").read_text()).get("winner")
    arm = () if winner else (f"curriculum.arm={_ARM}",)
    steps = asked.stage_steps
    stages = {
        "curriculum": [_stage(name, where, steps) for name, where in _STAGES.items()],
        "mixed": [_stage("mixed", _ALL, steps * len(_STAGES))],
    }
    running = []
    for number, (name, asked_stages) in enumerate(stages.items()):
        if (asked.output / name / "report.json").is_file():
            continue
        words = (
            "train", str(_FILES / f"{name}.yaml"), "--folder", str(asked.output / name),
            f"data.train.path={models}", f"data.held_out.path={models}", *arm,
            f"curriculum.from={asked.output / 'ablation'}",
            f"curriculum.stages={json.dumps(asked_stages)}",
            f"grpo.steps={steps * len(_STAGES)}",
        )  # fmt: skip
        environment = os.environ | lanes[number % len(lanes)]
        running.append(subprocess.Popen([*_CLI, *words], env=environment))
        if len(lanes) == 1:
            running[-1].wait()
    if any(one.wait() for one in running):
        raise SystemExit("curriculum or control failed")


def _stage(name: str, difficulties: Sequence[str], steps: int) -> dict[str, Any]:
    return {"name": name, "where": {"difficulty": list(difficulties)}, "steps": steps}


def _report(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_text())


if __name__ == "__main__":
    main()
