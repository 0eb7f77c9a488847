"""Prometheus metrics of the sandbox."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from assay_shared.telemetry.metrics import LATENCY_BUCKETS_S
from assay_shared.types import CaseResult


class SandboxMetrics:
    """Metrics of programs, requests and slots, and of the sandbox's own faults."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._show_state(registry)
        self.programs = Counter(
            "assay_sandbox_programs_total",
            "Programs run, by how they ended; each stdin case is a run.",
            ["language", "status"],
            registry=registry,
        )
        self.cases = Counter(
            "assay_sandbox_cases_total",
            "Cases judged.",
            ["kind", "status"],
            registry=registry,
        )
        self.run_s = Histogram(
            "assay_sandbox_run_seconds",
            "Time a program ran, without the time of its compiler.",
            ["language"],
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.clean_s = Histogram(
            "assay_sandbox_clean_seconds",
            "Time until nothing was left of a program that had ended.",
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.wait_s = Histogram(
            "assay_sandbox_wait_seconds",
            "Time a program waited for a slot.",
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.faults = Counter(
            "assay_sandbox_faults_total",
            "Requests that failed by the sandbox's own fault.",
            registry=registry,
        )
        self.refused = Counter(
            "assay_sandbox_refused_total",
            "Requests refused because too many waited, or for too long.",
            registry=registry,
        )
        self.rebuilt = Counter(
            "assay_sandbox_slot_rebuilds_total",
            "Slots rebuilt after one was lost or used up.",
            registry=registry,
        )

    def _show_state(self, registry: CollectorRegistry) -> None:
        self.waiting = Gauge(
            "assay_sandbox_waiting", "Requests that wait for a place.", registry=registry
        )
        self.slots = Gauge(
            "assay_sandbox_slots", "Programs that compute at once.", registry=registry
        )
        self.running = Gauge(
            "assay_sandbox_running", "Programs that compute now.", registry=registry
        )
        self.sleeping = Gauge(
            "assay_sandbox_sleeping",
            "Programs that run but use no CPU time now.",
            registry=registry,
        )
        self.isolation = Info(
            "assay_sandbox", "What holds programs apart.", ["isolation"], registry=registry
        )

    def count_cases(self, kind: str, results: Sequence[CaseResult]) -> None:
        for result in results:
            if result.status is not None:
                self.cases.labels(kind, result.status).inc()
