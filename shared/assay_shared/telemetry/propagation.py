"""Propagation of the ids and the trace of work from process to process.

HTTP requests and Celery messages carry two headers: `baggage` (run, step, group, sample; see
https://www.w3.org/TR/baggage/) and `traceparent`.
"""

from contextlib import AbstractContextManager, nullcontext
from urllib.parse import quote, unquote

from assay_shared.telemetry import tracing
from assay_shared.telemetry.context import WORK_IDS, current_work, log_fields

BAGGAGE_HEADER = "baggage"
#: Most characters read of an id and of a header, since other programs can send any length.
_MAX_VALUE, _MAX_HEADER = 256, 2048


def inject() -> dict[str, str]:
    """Return headers with the ids and the trace of the current work, as far as known."""
    work = current_work()
    headers = tracing.outgoing()
    if work:
        headers[BAGGAGE_HEADER] = ",".join(
            f"{name}={quote(str(value)[:_MAX_VALUE], safe='')}" for name, value in work.items()
        )
    return headers


def extract(baggage: str | None) -> AbstractContextManager[None]:
    """Return a context manager; in its block, log lines and spans have the ids of `baggage`."""
    work = _read(baggage) if baggage else {}
    return log_fields(**work) if work else nullcontext()


def _read(baggage: str) -> dict[str, object]:
    """Return the work ids in a baggage header; ignore its other members."""
    work: dict[str, object] = {}
    for member in baggage[:_MAX_HEADER].split(","):
        name, _, value = member.partition(";")[0].strip().partition("=")
        if name in WORK_IDS and value:
            text = unquote(value)[:_MAX_VALUE]
            is_number = name in ("step", "sample") and text.isdecimal()
            work[name] = int(text) if is_number else text
    return work
