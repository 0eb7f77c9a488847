"""The held-out values of the start and of every arm, by set, metric, seed and task."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import Scored
from assay_shared.weights import checkpoint as weights
from assay_trainer.ablation.ablation_folder import AblationFolder
from assay_trainer.ablation.decomposition.batches import step_events
from assay_trainer.ablation.judging.crossed import Floats
from assay_trainer.ablation.metrics import metric_of
from assay_trainer.evaluation.metrics.outcomes import scored
from assay_trainer.evaluation.metrics.stored_metrics import check_metrics
from assay_trainer.evaluation.records.folder import (
    StoredEvaluation,
    StoredSet,
    read_evaluation,
)
from assay_trainer.rollouts.rollout_log import read_rollouts

_RUBRIC = "training rubric "
#: A set and a metric.
Key = tuple[str, str]
#: By set and metric, each task's value.
Values = dict[Key, dict[str, float]]


@dataclass(frozen=True)
class FailedTask:
    """A task with failed samples: the numbers of the scored ones, and how many failed."""

    numbers: tuple[float, ...]
    num_failed: int


@dataclass(frozen=True)
class MeasuredRun:
    """A finished run as the frozen evaluator saw it, with the digests of all that must agree."""

    path: Path
    values: Values
    #: By name: what may not differ between arms.
    digests: Mapping[str, str]
    #: Of the weights that were evaluated.
    weights: str
    #: Numbers of the draws that were trained on.
    draws: frozenset[int] = frozenset()
    #: Of all trained answers and rewards, in order; empty if some are not stored.
    samples: str = ""
    #: By set, the failed samples and all samples.
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: By set and metric, the tasks with failed samples.
    failed: Mapping[Key, Mapping[str, FailedTask]] = field(default_factory=dict)
    #: By set and metric, the lowest and the highest number of a scored sample.
    ranges: Mapping[Key, tuple[float, float]] = field(default_factory=dict)

    def counting(self, key: Key, number: float) -> "MeasuredRun":
        """Return the run with this number for each failed sample."""
        metric = metric_of(key[1])
        counted = dict(self.values.get(key, {}))
        for id_, task in self.failed.get(key, {}).items():
            value = metric.value([*task.numbers, *[number] * task.num_failed])
            if value is not None:
                counted[id_] = value
        return replace(self, values={**self.values, key: counted})


@dataclass(frozen=True)
class MeasuredArm:
    """An arm with its runs by seed."""

    name: str
    runs: Mapping[int, MeasuredRun]

    def counting(self, key: Key, number: float) -> "MeasuredArm":
        """Return the arm with this number for each failed sample of a metric."""
        runs = {seed: run.counting(key, number) for seed, run in self.runs.items()}
        return replace(self, runs=runs)

    def tasks(self, key: Key) -> list[str]:
        """Return the tasks that every seed has a value for, in order."""
        tables = [one.values.get(key, {}) for one in self.runs.values()]
        return [id_ for id_ in tables[0] if all(id_ in table for table in tables)]

    def table(self, key: Key, tasks: Sequence[str], seeds: Sequence[int]) -> Floats:
        """Return the values: a row for each seed, a column for each task."""
        rows = [[self.runs[seed].values[key][id_] for id_ in tasks] for seed in seeds]
        return np.asarray(rows, dtype=float)


def read_run(folder: AblationFolder, run: Path, metrics: Sequence[str]) -> MeasuredRun:
    """Return a finished run of an ablation.

    Raises:
        NotFound: it was not measured.
        DatasetError: a file cannot be read.
    """
    stored = read_evaluation(folder.measured(run).path)
    check_metrics(stored)
    trained = _read_trained(RunFolder(run))
    numbers = [
        _numbers_of(name, metric, one) for name, one in stored.sets.items() for metric in metrics
    ]
    return MeasuredRun(
        path=run,
        values={one.key: one.values for one in numbers},
        digests={**_of_evaluator(stored), **_of_training(RunFolder(run)), **trained.rubrics},
        weights=str(stored.record.policy.digest),
        draws=trained.draws,
        samples=trained.samples,
        counts={
            name: (len(one.samples) - len(scored(one.samples)), len(one.samples))
            for name, one in stored.sets.items()
        },
        failed={one.key: one.failed for one in numbers},
        ranges={one.key: one.range for one in numbers if one.range is not None},
    )


@dataclass(frozen=True)
class _Numbers:
    """A metric on a set."""

    key: Key
    values: dict[str, float]
    failed: dict[str, FailedTask]
    range: tuple[float, float] | None


def _numbers_of(set_name: str, name: str, stored: StoredSet) -> _Numbers:
    """Return a metric's value of each task, and the tasks with failed samples.

    A task is left out if a scored sample cannot tell the metric.
    """
    metric = metric_of(name)
    values: dict[str, float] = {}
    failed: dict[str, FailedTask] = {}
    known: list[float] = []
    for id_, samples in stored.by_task.items():
        good = scored(samples)
        numbers = metric.numbers(good)
        if numbers is None:
            continue
        known += numbers
        value = metric.value(numbers)
        if value is not None:
            values[id_] = value
        if len(good) < len(samples):
            failed[id_] = FailedTask(tuple(numbers), len(samples) - len(good))
    span = (min(known), max(known)) if known else None
    return _Numbers((set_name, name), values, failed, span)


def _of_evaluator(stored: StoredEvaluation) -> dict[str, str]:
    record = stored.record
    found = {"evaluator: protocol": record.protocol_digest}
    found |= {f"engine: {name}": value for name, value in sorted(record.engine.items())}
    for one in record.sets:
        found[f"evaluator: tasks of {one.name}"] = one.digest
        found[f"evaluator: rubric of {one.name}"] = " ".join(one.scorers)
    return found


def _of_training(run: RunFolder) -> dict[str, str]:
    """Return the digest of a run's tasks; that of the start's weights too if it trained."""
    found = {"tasks": hashlib.sha256(run.tasks.read_bytes()).hexdigest()}
    config = run.read_config()["config"]
    if config.get("grpo") is None:
        return found
    found["start's weights"] = weights.digest(run.path / "models" / "initial")
    return found


@dataclass(frozen=True)
class _Trained:
    """What the stored groups of a run tell of its training."""

    #: By name, the digests of each rubric.
    rubrics: dict[str, str]
    draws: frozenset[int]
    samples: str


def _read_trained(run: RunFolder) -> _Trained:
    """Read a run's groups once; those that a resume has replaced tell of rubrics alone."""
    versions: dict[str, set[str]] = {}
    draws: set[int] = set()
    hashed, num_groups = hashlib.sha256(), 0
    for one in read_rollouts(run.rollouts):
        name, _, digest = one.scorer.partition("@")
        versions.setdefault(f"{_RUBRIC}{name}", set()).add(digest)
        if one.superseded:
            continue
        num_groups += 1
        _, *parts = one.group.key.split("/")
        if len(parts) > 1 and parts[0].isdecimal():
            draws.add(int(parts[0]))
        answers = [rollout.token_ids for rollout in one.group.rollouts]
        rewards = [reward.value if isinstance(reward, Scored) else None for reward in one.rewards]
        hashed.update(json.dumps([one.step, one.group.task.id, answers, rewards]).encode())
    is_whole = num_groups == sum(step.num_groups for step in step_events(run))
    return _Trained(
        rubrics={name: " ".join(sorted(digests)) for name, digests in versions.items()},
        draws=frozenset(draws),
        samples=hashed.hexdigest() if num_groups and is_whole else "",
    )


def shared_draws(arm: MeasuredArm, other: MeasuredArm) -> float | None:
    """Return the share of draws that both arms trained on (Jaccard), the mean over seeds."""
    found = []
    for seed, run in arm.runs.items():
        theirs = other.runs[seed].draws if seed in other.runs else frozenset()
        if run.draws or theirs:
            found.append(len(run.draws & theirs) / len(run.draws | theirs))
    return sum(found) / len(found) if found else None


def refused(baseline: MeasuredArm, arm: MeasuredArm) -> list[str]:
    """Return what differs in an arm from the baseline, and may not.

    A rubric counts if both trained on it: groups without signal are not trained on.
    """
    known: dict[str, str] = {}
    for run in baseline.runs.values():
        known = {**run.digests, **known}
    found: dict[str, None] = {}
    for seed, run in arm.runs.items():
        for name in sorted({*known, *run.digests}):
            old, new = known.get(name), run.digests.get(name)
            if name.startswith(_RUBRIC) and None in (old, new):
                continue
            if old != new:
                found[f"{name}: {_short(old)}, not {_short(new)} (seed {seed})"] = None
    return list(found)


def _short(value: str | None) -> str:
    return "nothing" if value is None else value[:24]
