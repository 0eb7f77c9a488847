"""Runs the study of OR debugging on one host: SFT, five arms, a curriculum, evaluation, report.

    python -m bench.or_phase4 OUT --lanes 4 --lessons 800
    python -m bench.or_phase4 OUT --lanes 1 --per-cell 20 --medium 40 --sft-steps 20 --steps 1

Files of configs/or_phase4; the arms have their own models of type D, medium, and the
demonstrations theirs with --lessons. A lane is a set of services with its own cores, engines too;
updates take the cards, if there are any, in turn. Half the lanes run the arms, the others a
curriculum and its control; with --only, all run one of them. What OUT holds is not done again.
OUT/rows.json has the seconds of each part, the reports of the ablations, and the study's goals.
Needs Linux (core affinity).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch
import yaml

from assay_shared.local.launcher import running_services

_FILES = Path("configs/or_phase4")
_CLI = (sys.executable, "-m", "assay_shared.cli")
_FEW_THREADS = {"OMP_NUM_THREADS": "2"}
#: Samples of a step took 4 to 9 s on some cores, and 7 to 20 s where eight engines shared a card.
_NO_CARD = {"ASSAY_INFERENCE_DEVICE": "cpu"}
#: The arm whose settings curriculum and control take.
_ARM = "run_1_no_kl"
_STAGES = {
    "easy": ("easy",),
    "easy_medium": ("easy", "medium"),
    "medium_hard": ("medium", "hard"),
    "hard": ("hard",),
}
_ALL = ("easy", "medium", "hard")
#: Arms of curricula.yaml, with their kind in the study's report.
_CURRICULA = {"mixed": "other", "curriculum": "curriculum"}
_REPORTED = ("ablation", "curricula")


def main() -> None:
    asked = _arguments()
    asked.output = asked.output.resolve()
    asked.output.mkdir(parents=True, exist_ok=True)
    with _timed(asked, "models"):
        models = _generate(asked, "models", "--per-cell", str(asked.per_cell), "--seed", "2026")
        medium = _generate(
            asked, "medium", "--per-cell", str(asked.medium), "--seed", "2027",
            "--types", "D", "--difficulties", "medium",
        )  # fmt: skip
    with _timed(asked, "demonstrations"):
        demonstrations = _demonstrate(asked, models)
    with _timed(asked, "sft"):
        policy = _sft(asked, models, demonstrations)
    with ExitStack() as stack:
        # Services end with the thread that started them.
        starters = stack.enter_context(ThreadPoolExecutor(asked.lanes))
        lanes = list(starters.map(partial(_lane, stack, asked), range(asked.lanes)))
        with _timed(asked, "ablations"):
            _ablate_all(asked, models, medium / "type_D_medium", policy, lanes)
    policies = _policies(asked, policy)
    with _timed(asked, "evaluations"):
        _evaluate_all(asked, models, policies)
    with _timed(asked, "report"):
        _study(asked, policies)
    rows = {name: _json(asked.output / name / "report.json") for name in asked.only}
    rows |= {"seconds": _json(asked.output / "seconds.json"), "study": _evaluated(asked, policies)}
    (asked.output / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--lanes", type=int, default=4, help="runs at once")
    parser.add_argument("--per-cell", type=int, default=200, help="models of each cell")
    parser.add_argument("--medium", type=int, default=1000, help="models of the arms")
    parser.add_argument(
        "--lessons",
        type=int,
        default=0,
        help="other models of each easy and medium cell for demonstrations; 0: those of --per-cell",
    )
    parser.add_argument("--sft-steps", type=int, default=2500)
    parser.add_argument("--steps", type=int, default=15, help="steps of an arm")
    parser.add_argument("--stage-steps", type=int, default=10, help="steps of each stage")
    parser.add_argument("--seeds", default="1,2,3,4")
    parser.add_argument(
        "--only", action="append", choices=_REPORTED, help="one of the two; both without it"
    )
    parser.add_argument("--max-samples", type=int, help="evaluated tasks of each cell")
    asked = parser.parse_args()
    asked.only = asked.only or list(_REPORTED)
    return asked


@contextmanager
def _timed(asked: argparse.Namespace, part: str) -> Iterator[None]:
    """Add the seconds of a part to those that earlier starts have spent on it."""
    began = time.monotonic()
    try:
        yield
    finally:
        path = asked.output / "seconds.json"
        spent = _json(path) if path.is_file() else {}
        took = time.monotonic() - began
        path.write_text(json.dumps(spent | {part: round(spent.get(part, 0) + took, 1)}) + "\n")
        print(f"{took:.0f} s: {part}", flush=True)


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


def _demonstrate(asked: argparse.Namespace, models: Path) -> Path:
    """Return the file of demonstrations.

    With --lessons, easy and medium ones are of other models. Hard ones take the most time to make,
    so these are of the study's own training tasks.
    """
    path: Path = asked.output / "demonstrations.jsonl"
    if path.is_file() or (asked.output / "sft" / "report.json").is_file():
        return path
    sources, mistakes = [models], ("--mistake-rate", "0.4")
    if asked.lessons:
        words = ("--per-cell", str(asked.lessons), "--difficulties", "easy,medium")
        lessons = _generate(asked, "lessons", *words, "--seed", "2028")
        sources = [
            *_cells(lessons),
            *(one for one in _cells(models) if one.parent.name.endswith("_hard")),
        ]
    parts = [asked.output / f"demonstrations-{number}.jsonl" for number in range(len(sources))]

    def demonstrate(source: Path, part: Path) -> None:
        part.unlink(missing_ok=True)  # of a start that was interrupted
        _run(("or-debug", "demonstrate", str(source), "--output", str(part), *mistakes), {})

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(demonstrate, sources, parts))
    path.write_text("".join(part.read_text() for part in parts))
    for part in parts:
        part.unlink()
    return path


def _cells(benchmark: Path) -> list[Path]:
    return sorted(benchmark.glob("type_*/tasks.jsonl"))


def _sft(asked: argparse.Namespace, models: Path, demonstrations: Path) -> Path:
    folder: Path = asked.output / "sft"
    if not (folder / "report.json").is_file():
        words: tuple[str, ...] = ("train", "--resume", str(folder))
        if not (folder / "config.json").is_file():
            words = (
                "train", str(_FILES / "sft.yaml"), "--folder", str(folder),
                f"data.train.path={models}", f"data.held_out.path={models}",
                f"data.demonstrations.path={demonstrations}", f"sft.steps={asked.sft_steps}",
            )  # fmt: skip
        with running_services(asked.output / "services-sft", settings=_services(asked)) as mesh:
            _run(words, mesh.environment | _card(0))
    return folder / "models" / "sft"


def _lane(stack: ExitStack, asked: argparse.Namespace, number: int) -> dict[str, str]:
    """Start the services of a lane on its share of the cores, and return a trainer's variables."""
    home = asked.output / f"services-{number}"
    with _on_share(asked, number):
        mesh = stack.enter_context(running_services(home, num_workers=2, settings=_services(asked)))
    return mesh.environment | {"ASSAY_RUNS": str(asked.output)} | _card(number)


def _card(number: int) -> dict[str, str]:
    """Return the card of a trainer; lanes take the visible cards in turn."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    cards = given.split(",") if given else list(map(str, range(torch.cuda.device_count())))
    return {"CUDA_VISIBLE_DEVICES": cards[number % len(cards)]} if cards else {}


def _services(asked: argparse.Namespace) -> dict[str, str]:
    """Return the settings of services; inference may read the weights of all runs of the study."""
    return _FEW_THREADS | _NO_CARD | {"ASSAY_INFERENCE_WEIGHT_ROOTS": str(asked.output)}


@contextmanager
def _on_share(asked: argparse.Namespace, number: int) -> Iterator[None]:
    """Let processes that this thread starts meanwhile run on a lane's share of the cores."""
    all_cores = os.sched_getaffinity(0)
    cores = sorted(all_cores)
    share = max(1, len(cores) // asked.lanes)
    os.sched_setaffinity(0, cores[number * share : (number + 1) * share] or cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


def _ablate_all(
    asked: argparse.Namespace,
    models: Path,
    medium: Path,
    policy: Path,
    lanes: Sequence[Mapping[str, str]],
) -> None:
    """Run the arms, and curriculum against control, or one of them: at once if lanes allow.

    Neither waits for the other, so the curriculum has the settings of a given arm.
    """
    shared = {"policy.folder": str(policy), "grpo.signal_check": None}
    arms = shared | _data(medium) | {"grpo.steps": asked.steps}
    all_steps = asked.stage_steps * len(_STAGES)
    control = [_stage("mixed", _ALL, all_steps)]
    staged = [_stage(name, where, asked.stage_steps) for name, where in _STAGES.items()]
    curricula = shared | _data(models) | _settings_of_arm()
    curricula |= {"curriculum": {"stages": control}, "grpo.steps": all_steps}
    names = {"mixed": {}, "curriculum": {"curriculum.stages": staged}}
    changes = {
        "ablation": {"overrides": arms},
        "curricula": {"overrides": curricula, "arms": names},
    }
    wanted = [name for name in _REPORTED if name in asked.only]
    with ThreadPoolExecutor(min(len(wanted), len(lanes))) as pool:
        running = [
            pool.submit(_ablate, asked, name, changes[name], lanes[at :: len(wanted)] or lanes)
            for at, name in enumerate(wanted)
        ]
        for one in running:
            one.result()


def _ablate(
    asked: argparse.Namespace,
    name: str,
    changes: Mapping[str, Any],
    lanes: Sequence[Mapping[str, str]],
) -> None:
    """Run an ablation of configs/or_phase4, or resume it."""
    folder: Path = asked.output / name
    if (folder / "report.json").is_file():
        return
    options = []
    for number, lane in enumerate(lanes):
        file = asked.output / f"{name}-{number}.env"
        file.write_text("".join(f"{key}={value}\n" for key, value in lane.items()))
        options += ["--lane", str(file)]
    words: tuple[str, ...] = ("ablate", "--resume", str(folder))
    if not (folder / "ablation.json").is_file():
        settings = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
        words = (
            "ablate", str(_FILES / f"{name}.yaml"), *settings, f"seeds=[{asked.seeds}]",
            "--folder", str(folder),
        )  # fmt: skip
    _run((*words, *options), lanes[0], fails=True)
    if not (folder / "report.json").is_file():
        raise SystemExit(f"{folder} has no report: it was stopped; the same command resumes it")


def _data(folder: Path) -> dict[str, str]:
    return {"data.train.path": str(folder), "data.held_out.path": str(folder)}


def _settings_of_arm() -> dict[str, Any]:
    """Return the settings of the arm that curriculum and control take."""
    found: dict[str, Any] = {}
    for name, own in _arms().items():
        found |= own
        if name == _ARM:
            break
    return found


def _arms() -> dict[str, dict[str, Any]]:
    arms: dict[str, dict[str, Any]] = _yaml(_FILES / "ablation.yaml")["arms"]
    return arms


def _stage(name: str, difficulties: Sequence[str], steps: int) -> dict[str, Any]:
    return {"name": name, "where": {"difficulty": list(difficulties)}, "steps": steps}


def _policies(asked: argparse.Namespace, start: Path) -> list[dict[str, str]]:
    """Return the policies of the study's file, each with its checkpoint: of arms, one seed."""
    seed = asked.seeds.split(",")[0]
    runs = {name: asked.output / "ablation" / f"ablation-{name}-s{seed}" for name in _arms()}
    runs |= {name: asked.output / "curricula" / f"curricula-{name}-s{seed}" for name in _CURRICULA}
    kinds = dict.fromkeys(runs, "ablation") | _CURRICULA
    found = [{"name": "SFT", "kind": "start", "checkpoint": str(start)}]
    for name, run in runs.items():
        if not (run / "report.json").is_file():
            continue  # an arm without effect is not trained
        checkpoint = str(run / "models" / "grpo")
        found.append({"name": name, "kind": kinds[name], "run": str(run), "checkpoint": checkpoint})
    return [one | {"evaluation": str(asked.output / "evaluation" / one["name"])} for one in found]


def _evaluate_all(
    asked: argparse.Namespace, models: Path, policies: Sequence[Mapping[str, str]]
) -> None:
    """Evaluate as many policies at once as there are lanes, each on a lane's cores."""
    free: SimpleQueue[int] = SimpleQueue()
    for number in range(asked.lanes):
        free.put(number)

    def evaluate(policy: Mapping[str, str]) -> None:
        number = free.get()
        try:
            with _on_share(asked, number):
                _evaluate(asked, models, policy)
        finally:
            free.put(number)

    with ThreadPoolExecutor(asked.lanes) as pool:
        list(pool.map(evaluate, policies))


def _evaluate(asked: argparse.Namespace, models: Path, policy: Mapping[str, str]) -> None:
    """Serve a policy and let it play; the start's evaluation has the trivial policies too."""
    folder = Path(policy["evaluation"])
    if (folder / "evaluation.json").is_file():
        return
    few = () if asked.max_samples is None else ("--max-samples", str(asked.max_samples))
    trivial = "--baselines" if policy["kind"] == "start" else "--no-baselines"
    settings = _services(asked) | {"ASSAY_INFERENCE_MODEL": policy["checkpoint"]}
    home = asked.output / "services-evaluation" / policy["name"]
    with running_services(home, num_workers=0, services=("inference",), settings=settings) as mesh:
        words = (
            "or-debug", "evaluate", str(models), "--policy", mesh.urls["inference"],
            "--output", str(folder), "--max-tokens", "24", trivial, *few,
        )  # fmt: skip
        _run(words, mesh.environment, fails=True)


def _study(asked: argparse.Namespace, policies: Sequence[Mapping[str, str]]) -> None:
    """Write the report of the study by the goals of its file, and with the policies there are."""
    file = _yaml(_FILES / "report.yaml")
    kept = ("name", "kind", "evaluation", "run")
    file["policies"] = [{key: one[key] for key in kept if key in one} for one in policies]
    names = [one["name"] for one in policies]
    file["final"] = file["final"] if file["final"] in names else names[-1]
    path = asked.output / "report.yaml"
    path.write_text(yaml.safe_dump(file, sort_keys=False))
    _run(("or-debug", "report", str(path), "--output", str(asked.output / "report")), {})


def _evaluated(asked: argparse.Namespace, policies: Sequence[Mapping[str, str]]) -> Any:
    found = {one["name"]: Path(one["evaluation"]) / "evaluation.json" for one in policies}
    evaluations = {name: _json(file) for name, file in found.items()}
    return {"report": _json(asked.output / "report" / "study.json"), "evaluations": evaluations}


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


if __name__ == "__main__":
    main()
