"""What goes along with work from one process to the next: its ids, and its trace.

Over HTTP and in Celery's messages alike, as two headers: `baggage` (run, step, group, sample; see
https://www.w3.org/TR/baggage/) and `traceparent`.
"""

from contextlib import AbstractContextManager, nullcontext
from urllib.parse import quote, unquote

from assay_shared.telemetry import tracing
from assay_shared.telemetry.context import WORK_IDS, current_work, log_fields

BAGGAGE_HEADER = "baggage"
#: Of one id, and of a header: what comes from elsewhere is not believed to be small.
_MAX_VALUE, _MAX_HEADER = 256, 2048


def inject() -> dict[str, str]:
    """The headers of the work in hand; none where nothing is known of it."""
    work = current_work()
    headers = tracing.outgoing()
    if work:
        headers[BAGGAGE_HEADER] = ",".join(
            f"{name}={quote(str(value)[:_MAX_VALUE], safe='')}" for name, value in work.items()
        )
    return headers


def extract(baggage: str | None) -> AbstractContextManager[None]:
    """Within it, log lines and spans bear the ids that came along."""
    work = _read(baggage) if baggage else {}
    return log_fields(**work) if work else nullcontext()


def _read(baggage: str) -> dict[str, object]:
    """Ours among the members of the header; the others are not for us."""
    work: dict[str, object] = {}
    for member in baggage[:_MAX_HEADER].split(","):
        name, _, value = member.partition(";")[0].strip().partition("=")
        if name in WORK_IDS and value:
            text = unquote(value)[:_MAX_VALUE]
            is_number = name in ("step", "sample") and text.isdecimal()
            work[name] = int(text) if is_number else text
    return work
