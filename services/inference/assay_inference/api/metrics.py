"""Prometheus metrics of an engine, read when Prometheus scrapes."""

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from assay_inference.engines.engine import Monitored
from assay_inference.serving.admission import Admission
from assay_inference.serving.served_policy import ServedPolicy
from assay_inference.serving.unserved import Unserved


class EngineMetrics(Collector):
    """Metrics common to all engines, then this engine's own metrics under their own names."""

    def __init__(
        self, engine: Monitored, admission: Admission, policy: ServedPolicy, unserved: Unserved
    ) -> None:
        self._engine = engine
        self._admission = admission
        self._policy = policy
        self._unserved = unserved

    def collect(self) -> Iterable[Metric]:
        traffic = self._engine.traffic()
        yield CounterMetricFamily(
            "assay_inference_tokens", "Tokens sampled.", value=traffic.num_tokens
        )
        yield GaugeMetricFamily(
            "assay_inference_running", "Sequences being sampled.", value=traffic.num_running
        )
        waiting = GaugeMetricFamily(
            "assay_inference_waiting", "Sequences in the queue.", labels=["priority"]
        )
        for priority, num_sequences in self._admission.waiting.items():
            waiting.add_metric([priority], num_sequences)
        yield waiting
        yield GaugeMetricFamily(
            "assay_inference_wanted", "Work for which engines are needed.", value=self._wanted()
        )
        served = self._policy.status.policy
        if served is not None:
            yield GaugeMetricFamily(
                "assay_inference_version", "Version served.", value=served.version
            )
        if traffic.cache_use is not None:
            yield GaugeMetricFamily(
                "assay_inference_cache_use",
                "Share of the key-value cache that is in use.",
                value=traffic.cache_use,
            )
        yield from self._engine.own_metrics()

    def _wanted(self) -> int:
        """Return the sequences in flight and in the queue; at least 1 if an engine is needed.

        One is needed while weights are loaded, and for a minute after a refusal.
        """
        num_sequences = self._admission.num_running + sum(self._admission.waiting.values())
        return max(num_sequences, int(self._policy.is_updating or self._unserved.is_recent))

    def describe(self) -> Iterable[Metric]:
        return ()
