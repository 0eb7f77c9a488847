"""Prometheus metrics of the executor: calls, replies by kind, and workflows that changed models."""

from prometheus_client import CollectorRegistry, Counter


class ExecutorMetrics:
    """Counters of calls, replies and fallbacks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = Counter(
            "assay_executor_calls_total",
            "Calls of operators, by outcome: answered, or the class of the error.",
            ["model", "outcome"],
            registry=registry,
        )
        self.replies = Counter(
            "assay_executor_replies_total",
            "Replies, by kind: complete, empty, reasoning_only, truncated, declined, or odd.",
            ["model", "kind"],
            registry=registry,
        )
        self.fallbacks = Counter(
            "assay_executor_fallbacks_total",
            "Workflows that a model left to the next one.",
            ["model"],
            registry=registry,
        )
