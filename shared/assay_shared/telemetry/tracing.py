"""Traces: spans of the steps of a sample. Off, and without cost, unless an OTLP endpoint is set.

Trace context is W3C's `traceparent`: https://www.w3.org/TR/trace-context/. OpenTelemetry is
imported only if traces are on.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from assay_shared.errors import ConfigError
from assay_shared.settings.environment import ServiceSettings
from assay_shared.telemetry.context import current_work

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer

Value = str | int | float | bool

_PREFIX = "assay."
_QUEUE_SPANS, _BATCH_SPANS = 8192, 512
_EVERY_MS = 1000
_EXPORT_TIMEOUT_S = 5.0


class TraceSpan:
    """A begun span. `note` adds attributes later; without tracing, all methods do nothing."""

    def __init__(self, span: "OtelSpan | None" = None) -> None:
        self._span = span

    def note(self, **attributes: Value) -> None:
        if self._span is not None:
            self._span.set_attributes({_PREFIX + name: value for name, value in attributes.items()})

    def rename(self, name: str) -> None:
        if self._span is not None:
            self._span.update_name(name)

    def end(self) -> None:
        """End a span of `begin`."""
        if self._span is not None:
            self._span.end()

    def fail(self, reason: str) -> None:
        """Mark the span as failed without an exception."""
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, reason))

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this the current span in the block; the span stays open afterwards.

        New spans in the block are its children, and `outgoing` names it.
        """
        if self._span is None:
            yield
            return
        from opentelemetry.trace import use_span

        with use_span(self._span, end_on_exit=False, record_exception=False):
            yield


class _Nothing(AbstractContextManager[TraceSpan]):
    """The result of `span` without tracing: a single shared object."""

    _span = TraceSpan()

    def __enter__(self) -> TraceSpan:
        return self._span

    def __exit__(self, *_: object) -> None:
        return None


class _Active:
    """The tracer of this process, from `set_up_tracing` on."""

    tracer: "Tracer | None" = None
    provider: "TracerProvider | None" = None


_NOTHING = _Nothing()


def set_up_tracing(service: str, settings: ServiceSettings) -> None:
    """Send spans of this process to the endpoint in the settings; without it, do nothing.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    if not settings.otlp_endpoint:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"traces need {error.name}, which is not installed",
            field="ASSAY_OTLP_ENDPOINT",
            hint="pip install 'assay-rl[traces]'",
        ) from error
    from assay_shared import __version__

    resource = {"service.name": f"assay-{service}", "service.version": __version__}
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.trace_share)),
        resource=Resource.create(resource),
    )
    endpoint = settings.otlp_endpoint.rstrip("/") + "/v1/traces"
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_EXPORT_TIMEOUT_S)
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter,
            max_queue_size=_QUEUE_SPANS,
            max_export_batch_size=_BATCH_SPANS,
            schedule_delay_millis=_EVERY_MS,
        )
    )
    _Active.provider, _Active.tracer = provider, provider.get_tracer("assay")


def end_tracing() -> None:
    """Send the remaining spans, and turn traces off."""
    if _Active.provider is not None:
        _Active.provider.shutdown()
    _Active.provider = _Active.tracer = None


def is_on() -> bool:
    return _Active.tracer is not None


def span(name: str, **attributes: Value) -> AbstractContextManager[TraceSpan]:
    """Return a context manager with a span of its block; an exception is recorded and raised."""
    if _Active.tracer is None:
        return _NOTHING
    return _started(name, None, attributes)


def begin(name: str, **attributes: Value) -> TraceSpan:
    """Begin a span of a new trace for work longer than a block; the caller must end it."""
    if _Active.tracer is None:
        return _NOTHING._span
    from opentelemetry.context import Context

    return TraceSpan(_Active.tracer.start_span(name, Context(), attributes=_named(attributes)))


def serving(name: str, headers: Mapping[str, str]) -> AbstractContextManager[TraceSpan]:
    """Return `span` with a parent in another process, named by the request's headers."""
    if _Active.tracer is None:
        return _NOTHING
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent = TraceContextTextMapPropagator().extract(dict(headers))
    return _started(name, parent, {})


def outgoing() -> dict[str, str]:
    """Return headers with the current span; empty without tracing."""
    headers: dict[str, str] = {}
    if _Active.tracer is not None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(headers)
    return headers


@contextmanager
def _started(
    name: str, parent: "Context | None", attributes: Mapping[str, Value]
) -> Iterator[TraceSpan]:
    assert _Active.tracer is not None
    from opentelemetry.trace import SpanKind

    kind = SpanKind.INTERNAL if parent is None else SpanKind.SERVER
    with _Active.tracer.start_as_current_span(
        name, parent, kind=kind, attributes=_named(attributes)
    ) as started:
        yield TraceSpan(started)


def _named(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Return the attributes and the ids of the current work, all with the prefix `assay.`."""
    return {_PREFIX + name: value for name, value in {**current_work(), **attributes}.items()}
