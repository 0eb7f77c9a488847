"""What an engine says of itself, at the moment that it is asked."""

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from assay_inference.engine import Engine


class EngineMetrics(Collector):
    """Figures of any engine, and those that only this one has, under its own names."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterable[Metric]:
        traffic = self._engine.traffic()
        yield CounterMetricFamily(
            "assay_inference_tokens", "Tokens drawn.", value=traffic.num_tokens
        )
        yield GaugeMetricFamily(
            "assay_inference_running", "Sequences being drawn.", value=traffic.num_running
        )
        yield GaugeMetricFamily(
            "assay_inference_waiting", "Sequences that wait.", value=traffic.num_waiting
        )
        yield from self._engine.own_metrics()

    def describe(self) -> Iterable[Metric]:
        return ()
