"""Prometheus metrics of requests to providers: number, time, tokens and cost."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from assay_shared.errors import AssayError
from assay_shared.providers.config import Price
from assay_shared.providers.state.ledger import Usage, money
from assay_shared.telemetry.metrics import LATENCY_BUCKETS_S


class ProviderMetrics:
    """Metrics of all models that the service `user` asks over the network."""

    def __init__(self, registry: CollectorRegistry, user: str) -> None:
        self._requests = Counter(
            f"assay_{user}_requests_total",
            "Requests to a provider, by how they ended: answered, or the class of the error.",
            ["provider", "outcome"],
            registry=registry,
        )
        self._request_s = Histogram(
            f"assay_{user}_request_seconds",
            "Time of one request to a provider.",
            ["provider"],
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self._tokens = Counter(
            f"assay_{user}_tokens_total",
            "Tokens, as a provider counted them.",
            ["provider", "kind"],
            registry=registry,
        )
        self._money = Counter(
            f"assay_{user}_money_total",
            "What requests cost, in the currency of the prices.",
            ["provider"],
            registry=registry,
        )
        #: Labelled counters by provider and outcome: their look-up costs more than counting.
        self._ended: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._taken: dict[str, tuple[Counter, Counter, Counter]] = {}
        self._left_alone = Gauge(
            f"assay_{user}_left_alone",
            "1 while a provider is not asked because it failed again and again.",
            ["provider"],
            registry=registry,
        )

    def request(self, provider: str) -> "_Timed":
        """Return a context manager to count and time a request."""
        return _Timed(self, provider)

    def count(self, provider: str, outcome: str, took_s: float) -> None:
        """Count an ended request, with its time."""
        number, seconds = self._ended_of(provider, outcome)
        number.inc()
        seconds.observe(took_s)

    def _ended_of(self, provider: str, outcome: str) -> tuple[Counter, Histogram]:
        ended = self._ended.get((provider, outcome))
        if ended is None:
            number = self._requests.labels(provider, outcome)
            ended = self._ended[provider, outcome] = (number, self._request_s.labels(provider))
        return ended

    def charge(self, provider: str, usage: Usage, price: Price) -> None:
        """Add the tokens and the cost of a request."""
        taken = self._taken.get(provider)
        if taken is None:
            taken = self._taken[provider] = (
                self._tokens.labels(provider, "prompt"),
                self._tokens.labels(provider, "completion"),
                self._money.labels(provider),
            )
        prompt, completion, spent = taken
        prompt.inc(usage.prompt_tokens)
        completion.inc(usage.completion_tokens)
        if not price.is_free:
            spent.inc(money(usage, price))

    def watch(self, provider: str, is_open: Callable[[], bool]) -> None:
        """Export the state of this provider's circuit from now on."""
        self._left_alone.labels(provider).set_function(lambda: float(is_open()))


class _Timed:
    """A counting and timing context manager: a generator would cost three times as much."""

    __slots__ = ("_metrics", "_provider", "_started")

    def __init__(self, metrics: ProviderMetrics, provider: str) -> None:
        self._metrics = metrics
        self._provider = provider

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        outcome = "gone"  # the client did not wait
        if kind is None:
            outcome = "answered"
        elif issubclass(kind, AssayError):
            outcome = kind.__name__
        self._metrics.count(self._provider, outcome, time.monotonic() - self._started)
