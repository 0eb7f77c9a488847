"""The evaluations and runs of a study, read from their folders and checked to be comparable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_reward.or_debug.evaluate.baselines import TRIVIAL
from assay_reward.or_debug.evaluate.evaluation import EpisodeRecord
from assay_reward.or_debug.evaluate.evaluation_file import AskedOptions
from assay_reward.or_debug.evaluate.summary import EvaluationSummary, summarise
from assay_reward.or_debug.study.checked_episodes import (
    CheckedEvaluation,
    check_same_tasks,
    read_checked_evaluation,
)
from assay_reward.or_debug.study.study_file import StudiedPolicy, StudyFile
from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import RunFolder, must_exist

#: Options of an evaluation in which all policies of a study must agree.
_SAME = ("tasks", "samples", "max_turns", "sampling")
#: Steps over which the reward is averaged before its falls are measured.
_SMOOTHED = 5


@dataclass(frozen=True)
class TrainingFacts:
    """Meters of a training run, a value for each step that has one."""

    num_steps: int
    #: Mean variance of the rewards within the groups of a step.
    reward_variances: tuple[float, ...]
    #: The greatest fall of the smoothed mean reward below its highest value so far.
    largest_fall: float | None
    #: The gradient's norm: its 95th percentile as a multiple of its median.
    gradient_spread: float | None
    num_without_signal: int
    num_played: int


@dataclass(frozen=True)
class StudiedResult:
    """A policy's episodes and their summary, with the facts of its training."""

    policy: StudiedPolicy
    records: tuple[EpisodeRecord, ...]
    summary: EvaluationSummary
    training: TrainingFacts | None

    @property
    def name(self) -> str:
        return self.policy.name


@dataclass(frozen=True)
class StudyResults:
    """All results of a study; `baselines` are those of the start's evaluation."""

    file: StudyFile
    results: tuple[StudiedResult, ...]
    baselines: EvaluationSummary

    @property
    def start(self) -> StudiedResult:
        return next(one for one in self.results if one.policy.kind == "start")

    def of(self, name: str) -> StudiedResult:
        return next(one for one in self.results if one.name == name)

    def of_kind(self, kind: str) -> list[StudiedResult]:
        return [one for one in self.results if one.policy.kind == kind]


def load_study(file: StudyFile) -> StudyResults:
    """Return the results that a study's file names.

    Raises:
        NotFound: a folder does not exist, or is not an evaluation, or not a run.
        DatasetError: an evaluation's files cannot be right, two evaluations cannot be compared, or
            the start's has no baselines.
    """
    found = {one.name: read_checked_evaluation(one.evaluation) for one in file.policies}
    start = next(one for one in file.policies if one.kind == "start")
    first = found[start.name]
    for name, evaluation in found.items():
        _check_same_options(name, evaluation.file.asked, start.name, first.file.asked)
        check_same_tasks(evaluation, first)
    if not first.of_baselines:
        raise DatasetError(
            "the evaluation of the start has no trivial policies",
            field=str(start.evaluation),
            hint="evaluate it without --no-baselines",
        )
    results = tuple(_result(policy, found[policy.name]) for policy in file.policies)
    return StudyResults(file, results, summarise("", first.of_baselines))


def _result(policy: StudiedPolicy, found: CheckedEvaluation) -> StudiedResult:
    own = tuple(record.model_copy(update={"policy": policy.name}) for record in found.own)
    training = None if policy.run is None else read_training(policy.run)
    return StudiedResult(policy, own, summarise(policy.name, own), training)


def _check_same_options(name: str, own: AskedOptions, start: str, first: AskedOptions) -> None:
    """Refuse an evaluation of other tasks, turns or sampling than the start's."""
    ours, theirs = (
        one.model_copy(update={"sampling": one.sampling.model_copy(update={"seed": None})})
        for one in (own, first)
    )
    for key in _SAME:
        if getattr(ours, key) != getattr(theirs, key):
            raise DatasetError(
                f"{name} and {start} cannot be compared: their {key} differ",
                field=key,
                hint="evaluate all policies with the same options on the same folder",
            )


def read_training(folder: Path) -> TrainingFacts:
    """Return the meters of a training run; a step that was repeated counts once.

    A run without a step has none: GRPO ends early where no group has signal.

    Raises:
        NotFound: there is no such folder, or it is not a run.
        DatasetError: the run has no GRPO.
    """
    must_exist(folder)
    steps: dict[int, dict[str, Any]] = {}
    has_grpo = False
    for event in RunFolder.open(folder).read_events():
        has_grpo |= event.kind == "stage_started" and event.data.get("stage") == "grpo"
        if event.kind == "resumed" and event.data.get("stage") == "grpo":
            last = int(str(event.data["step"]))
            steps = {number: step for number, step in steps.items() if number <= last}
        if event.kind == "step":
            steps[int(str(event.data["step"]))] = dict(event.data)
    if not steps and not has_grpo:
        raise DatasetError("the run has no GRPO", field=str(folder))
    ordered = [steps[number] for number in sorted(steps)]
    return TrainingFacts(
        num_steps=len(ordered),
        reward_variances=tuple(_known(ordered, "reward_variance")),
        largest_fall=_largest_fall(_known(ordered, "reward")),
        gradient_spread=_spread(_known(ordered, "grad_norm")),
        num_without_signal=sum(step["num_without_signal"] for step in ordered),
        num_played=sum(step["num_played"] for step in ordered),
    )


def _known(steps: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [float(step[name]) for step in steps if step.get(name) is not None]


def _largest_fall(rewards: Sequence[float]) -> float | None:
    if len(rewards) < _SMOOTHED:
        return None
    windows = [rewards[at : at + _SMOOTHED] for at in range(len(rewards) - _SMOOTHED + 1)]
    highest, fall = float("-inf"), 0.0
    for window in windows:
        mean = sum(window) / len(window)
        highest = max(highest, mean)
        fall = max(fall, highest - mean)
    return fall


def _spread(norms: Sequence[float]) -> float | None:
    ordered = sorted(norms)
    median = ordered[len(ordered) // 2] if ordered else 0.0
    if median <= 0:
        return None
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))] / median


def trivial_names(summary: EvaluationSummary) -> list[str]:
    """Return the names of the trivial policies of a summary, in their usual order."""
    there = {cell.policy for cell in summary.cells}
    return [name for name in TRIVIAL if name in there]
