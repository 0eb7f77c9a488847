"""Prometheus metrics of the runs started by this service."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from assay_shared.runs.run_folder import Event, read_event
from assay_trainer.events import (
    STAGES,
    GivenRowsStep,
    StepEvent,
    TaskSetAside,
    content,
    living,
)
from assay_trainer.meters import METERS
from assay_trainer.service.runs import Runs

#: Of the last step, by run.
_LAST: dict[str, tuple[str, Callable[[StepEvent], float | None]]] = {
    "step": ("GRPO steps done.", lambda step: step.step),
    "version": ("Policy version that groups are asked of.", lambda step: step.version),
    "reward": ("Mean reward of all scored samples, last step.", lambda step: step.reward),
    "pass_rate": ("Share of scored samples that are accepted, last step.", lambda s: s.pass_rate),
    "staleness_versions": (
        "Mean age of the groups trained on, last step.",
        lambda step: step.staleness_mean,
    ),
    "groups_per_second": ("Groups played a second, last step.", lambda step: step.groups_per_s),
    "tokens_per_second": (
        "Tokens that the update read a second, last step.",
        lambda step: step.tokens_per_s,
    ),
    "mfu": ("Share of the GPUs' peak that the update used, last step.", lambda step: step.mfu),
    "entropy_nats": ("Mean entropy of the policy, last step.", lambda step: step.entropy),
    "grad_norm": ("Norm of the gradient, last step.", lambda step: step.grad_norm),
} | {meter.series: (meter.text, meter.value) for meter in METERS}
#: Of the last update on given rows, by run and stage.
_GIVEN_ROWS = {
    "step": "Updates on given rows done in a stage.",
    "loss": "Loss of a stage's last update on given rows.",
    "learning_rate": "Learning rate of a stage's last update on given rows.",
    "grad_norm": "Norm of the gradient of a stage's last update on given rows.",
    "validation_loss": "Last measured loss on held-out demonstrations.",
    "margin": "Mean reward margin of the last update's pairs.",
    "accuracy": "Share of the last update's pairs with a positive margin.",
}
_MISMATCH = {
    "mean_abs_nats": "Mean absolute difference of trainer's and engine's log-probabilities.",
    "max_abs_nats": "Largest absolute difference of trainer's and engine's log-probabilities.",
    "kl_k1_nats": "KL of engine to trainer, estimated by k1.",
    "kl_k3_nats": "KL of engine to trainer, estimated by k3.",
}


def _facts(step: GivenRowsStep) -> dict[str, float]:
    return step.model_dump(include=set(_GIVEN_ROWS), exclude_none=True)


@dataclass
class Tail:
    """Facts from a run's events up to a byte of their file."""

    file: Path
    position: int = 0
    step: StepEvent | None = None
    #: Of the last update on given rows, by stage and name.
    given_rows: dict[str, dict[str, float]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    samples: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    phases_s: Counter[str] = field(default_factory=Counter)
    #: Tasks that were set aside, each with its set.
    set_aside: set[tuple[str, str]] = field(default_factory=set)
    num_by_folder: int = 0

    def read_on(self) -> None:
        """Read the lines complete by now.

        After a resume the sums start again, without the superseded steps.
        """
        if not self.file.exists():
            return
        with self.file.open("rb") as file:
            file.seek(self.position)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self.position += len(whole)
        new = [event for line in whole.splitlines(True) if (event := read_event(line))]
        if any(event.kind == "resumed" for event in new):
            self._begin_again()
            with self.file.open("rb") as file:
                lines = file.read(self.position).splitlines(True)
            new = living(event for line in lines if (event := read_event(line)))
        for event in new:
            self._add(event)

    def _begin_again(self) -> None:
        self.step, self.num_by_folder, self.given_rows = None, 0, {}
        for sums in (self.refused, self.groups, self.samples, self.failures, self.phases_s):
            sums.clear()

    def _add(self, event: Event) -> None:
        match content(event):
            case StepEvent() as step:
                self._add_step(step)
            case GivenRowsStep() as step:
                stage = STAGES[event.kind]
                self.given_rows[stage] = self.given_rows.get(stage, {}) | _facts(step)
            case TaskSetAside() as task:
                self.set_aside.add((task.set, task.task))
        self.num_by_folder += event.kind == "by_folder"

    def _add_step(self, step: StepEvent) -> None:
        self.step = step
        self.refused.update(step.refused)
        self.samples.update(step.outcomes)
        self.failures.update(step.failures)
        self.groups.update(
            played=step.num_played,
            trained=step.num_groups,
            without_signal=step.num_without_signal,
        )
        took = {"rollouts": step.rollouts_s, "update": step.update_s, "publish": step.publish_s}
        self.phases_s.update(took)


#: Sums over all steps of a run: name, text, label, and where they are.
_SUMS: tuple[tuple[str, str, str, Callable[[Tail], Counter[str]]], ...] = (
    ("groups", "Groups, by what became of them.", "fate", lambda tail: tail.groups),
    ("samples", "Scored samples of groups played.", "outcome", lambda tail: tail.samples),
    ("failures", "Samples and groups without a score.", "failure_class", lambda t: t.failures),
    (
        "refused_groups",
        "Groups not trained on because of the weights that sampled them.",
        "reason",
        lambda tail: tail.refused,
    ),
    (
        "tasks_set_aside",
        "Tasks that cannot be sampled or scored for their own reasons.",
        "set",
        lambda tail: Counter(name for name, _ in tail.set_aside),
    ),
    ("phase_seconds", "Where the time of steps went.", "phase", lambda tail: tail.phases_s),
)


class RunMetrics(Collector):
    """Reads the events since the last scrape."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._tails: dict[str, Tail] = {}

    def collect(self) -> Iterable[Metric]:
        running = self._runs.running()
        self._tails = {
            name: self._tails.get(name) or Tail(folder.events) for name, folder in running.items()
        }
        for tail in self._tails.values():
            tail.read_on()
        yield from self._last()
        yield self._curriculum_stage()
        yield self._measures()
        yield from self._given_rows()
        yield from self._mismatch()
        yield from self._sums()
        yield self._by_folder()

    def describe(self) -> Iterable[Metric]:
        return ()

    def _last(self) -> Iterable[Metric]:
        for key, (text, value_of) in _LAST.items():
            family = GaugeMetricFamily(f"assay_trainer_{key}", text, labels=["run"])
            for name, tail in self._tails.items():
                value = None if tail.step is None else value_of(tail.step)
                if value is not None:
                    family.add_metric([name], value)
            yield family

    def _curriculum_stage(self) -> Metric:
        text = "1 for the stage of the curriculum that the last step was of."
        family = GaugeMetricFamily("assay_trainer_curriculum_stage", text, labels=["run", "stage"])
        for name, tail in self._tails.items():
            if tail.step is not None and tail.step.curriculum_stage is not None:
                family.add_metric([name, tail.step.curriculum_stage], 1)
        return family

    def _measures(self) -> Metric:
        text = "Mean of a number that verifiers noted of samples, last step."
        family = GaugeMetricFamily("assay_trainer_measure", text, labels=["run", "measure"])
        for name, tail in self._tails.items():
            for measure, value in (tail.step.measures if tail.step else {}).items():
                family.add_metric([name, measure], value)
        return family

    def _given_rows(self) -> Iterable[Metric]:
        for key, text in _GIVEN_ROWS.items():
            family = GaugeMetricFamily(
                f"assay_trainer_given_rows_{key}", text, labels=["run", "stage"]
            )
            for name, tail in self._tails.items():
                for stage, facts in tail.given_rows.items():
                    if key in facts:
                        family.add_metric([name, stage], facts[key])
            yield family

    def _mismatch(self) -> Iterable[Metric]:
        for key, text in _MISMATCH.items():
            family = GaugeMetricFamily(f"assay_trainer_mismatch_{key}", text, labels=["run"])
            for name, tail in self._tails.items():
                if tail.step is not None and tail.step.mismatch is not None:
                    family.add_metric([name], getattr(tail.step.mismatch, key))
            yield family

    def _sums(self) -> Iterable[Metric]:
        for key, text, label, sums_of in _SUMS:
            family = CounterMetricFamily(f"assay_trainer_{key}", text, labels=["run", label])
            for name, tail in self._tails.items():
                for value, number in sums_of(tail).items():
                    family.add_metric([name, value], number)
            yield family

    def _by_folder(self) -> Metric:
        family = CounterMetricFamily(
            "assay_trainer_by_folder",
            "Versions that could not go directly to the engine.",
            labels=["run"],
        )
        for name, tail in self._tails.items():
            family.add_metric([name], tail.num_by_folder)
        return family
