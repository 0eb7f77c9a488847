"""What the runs that this service has started say of themselves, as Prometheus metrics."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from assay_shared.run_folder import Event
from assay_trainer.events import Step
from assay_trainer.runs import Runs

_MISMATCH = {
    "mean_abs_nats": "Mean absolute difference of trainer's and engine's log-probabilities.",
    "max_abs_nats": "Largest absolute difference of trainer's and engine's log-probabilities.",
    "kl_k1_nats": "KL of engine to trainer, estimated by k1.",
    "kl_k3_nats": "KL of engine to trainer, estimated by k3.",
}


@dataclass
class Tail:
    """What a run's events have said up to a byte of their file."""

    file: Path
    position: int = 0
    step: Step | None = None
    refused: Counter[str] = field(default_factory=Counter)

    def read_on(self) -> None:
        """Take in the lines that are whole by now."""
        if not self.file.exists():
            return
        with self.file.open("rb") as file:
            file.seek(self.position)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self.position += len(whole)
        for line in whole.splitlines():
            event = Event.model_validate_json(line)
            if event.kind == "step":
                self.step = Step.model_validate(event.data)
                self.refused.update(self.step.refused)


class RunMetrics(Collector):
    """Reads the events that came since it was last asked."""

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
        yield self._steps()
        yield from self._mismatch()
        yield self._refused()

    def describe(self) -> Iterable[Metric]:
        return ()

    def _steps(self) -> Metric:
        family = GaugeMetricFamily("assay_trainer_step", "GRPO steps done.", labels=["run"])
        for name, tail in self._tails.items():
            if tail.step is not None:
                family.add_metric([name], tail.step.step)
        return family

    def _mismatch(self) -> Iterable[Metric]:
        for key, text in _MISMATCH.items():
            family = GaugeMetricFamily(f"assay_trainer_mismatch_{key}", text, labels=["run"])
            for name, tail in self._tails.items():
                if tail.step is not None and tail.step.mismatch is not None:
                    family.add_metric([name], getattr(tail.step.mismatch, key))
            yield family

    def _refused(self) -> Metric:
        family = CounterMetricFamily(
            "assay_trainer_refused_groups",
            "Groups not trained on because of the weights that sampled them.",
            labels=["run", "reason"],
        )
        for name, tail in self._tails.items():
            for reason, number in tail.refused.items():
                family.add_metric([name, reason], number)
        return family
