"""Metrics common to all services; each service adds its own metrics to the same registry."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
)

# From a cache hit to a long generation.
LATENCY_BUCKETS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class ServiceMetrics:
    """Metrics of a service's HTTP traffic, and of its process's resources."""

    def __init__(self, service: str, version: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "assay_http_requests_total",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.latency_s = Histogram(
            "assay_http_request_seconds",
            "Time from the first byte of a request to the last of its answer.",
            ["route"],
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.num_in_flight = 0
        Gauge(
            "assay_http_requests_in_flight",
            "Requests being answered.",
            registry=self.registry,
        ).set_function(lambda: self.num_in_flight)
        #: Metrics by method, route and status: looking them up costs more than counting.
        self._counted: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        Info("assay_service", "Which service this is.", registry=self.registry).info(
            {"service": service, "version": version}
        )

    def count(self, method: str, route: str, status: int, took_s: float) -> None:
        """Count an answered request."""
        key = (method, route, status)
        counted = self._counted.get(key)
        if counted is None:
            number = self.requests.labels(method, route, str(status))
            counted = self._counted[key] = (number, self.latency_s.labels(route))
        counted[0].inc()
        counted[1].observe(took_s)
