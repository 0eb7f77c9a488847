"""Overload test: every run must be accepted or refused, never wrong, late or an error."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from assay_sandbox.load.load import (
    WORKLOADS,
    Format,
    LoadAnswer,
    LoadOutcome,
    LoadProgram,
    ask,
    open_session,
    percentile,
    put_load,
)
from assay_shared.errors import Saturated, Unreachable
from assay_shared.settings.environment import ServiceSettings

#: The status of a full sandbox, always sent with Retry-After.
REFUSAL = Saturated.http_status
OUTCOMES = ("accepted", "refused", "wrong", "late", "refused without a time", "error")
#: Percentiles to show of the right answers' latencies, late ones included.
SHARES = (50, 95, 99, 100)
_WORKLOAD = WORKLOADS[Format.ASSAY, LoadProgram.PRINT]
_CAPACITY_CONCURRENCY = 16
_TICK_S = 0.002


@dataclass
class Overload:
    """The outcomes of all runs. Latencies are of right answers, in milliseconds."""

    capacity_per_s: float
    late_after_s: float
    #: Time to send all requests, without waiting for the last answers.
    offered_s: float = 0.0
    #: Number of runs by outcome, see OUTCOMES.
    counts: Counter[str] = field(default_factory=Counter)
    latencies_ms: list[float] = field(default_factory=list)

    def add(self, answer: LoadAnswer) -> None:
        match answer.outcome:
            case LoadOutcome.RIGHT:
                self.latencies_ms.append(answer.took_ms)
                is_late = answer.took_ms > 1000 * self.late_after_s
                self.counts["late" if is_late else "accepted"] += 1
            case LoadOutcome.REFUSED if answer.status == REFUSAL:
                has_time = answer.headers.get("retry-after", "").isdigit()
                self.counts["refused" if has_time else "refused without a time"] += 1
            case LoadOutcome.REFUSED | LoadOutcome.ERROR:
                self.counts["error"] += 1
            case LoadOutcome.WRONG:
                self.counts["wrong"] += 1

    @property
    def offered_per_s(self) -> float:
        return self.counts.total() / self.offered_s

    @property
    def is_sound(self) -> bool:
        return self.counts.total() == self.counts["accepted"] + self.counts["refused"]

    def facts(self) -> dict[str, object]:
        """Return everything but the single latencies, for JSON."""
        shares = {f"p{share}_ms": percentile(self.latencies_ms, share) for share in SHARES}
        return {
            "capacity_per_s": self.capacity_per_s,
            "offered_per_s": self.offered_per_s,
            "late_after_s": self.late_after_s,
            **{name.replace(" ", "_"): self.counts[name] for name in OUTCOMES},
            **shares,
        }


async def overload(
    url: str,
    num_runs: int,
    factor: float,
    max_in_flight: int,
    late_after_s: float,
    settings: ServiceSettings,
    *,
    capacity_s: float = 2.0,
    on_progress: Callable[[int], None] = lambda num_done: None,
) -> Overload:
    """Measure a sandbox's capacity, then offer `factor` times as much; return the outcomes.

    Capacity is measured for `capacity_s`. After `max_in_flight` unanswered requests, the next
    request waits for an answer.

    Raises:
        Unreachable: the sandbox gives no right answer during the measurement of capacity.
    """
    (alone,) = await put_load(url, _WORKLOAD, [_CAPACITY_CONCURRENCY], capacity_s, settings)
    if not alone.num_right:
        raise Unreachable(f"no right answer from {url}: is that a sandbox?")
    seen = Overload(alone.per_s, late_after_s)
    target = url.rstrip("/") + _WORKLOAD.path
    body = json.dumps(_WORKLOAD.body).encode()
    started = time.monotonic()
    async with open_session(settings) as session, asyncio.TaskGroup() as group:

        async def run() -> None:
            seen.add(await ask(session, target, body, _WORKLOAD))

        num_begun = 0
        while num_begun < num_runs:
            due = min(num_runs, int((time.monotonic() - started) * factor * seen.capacity_per_s))
            room = max_in_flight - (num_begun - seen.counts.total())
            for _ in range(min(due - num_begun, room)):
                group.create_task(run())
                num_begun += 1
            on_progress(num_begun)
            await asyncio.sleep(_TICK_S)
        seen.offered_s = time.monotonic() - started
    return seen


HEADINGS = ["runs", ""]


def rows(seen: Overload) -> Iterator[list[str]]:
    """Yield a table's rows: the number of runs by outcome, and percentiles of the latencies."""
    for name in OUTCOMES:
        yield [name, str(seen.counts[name])]
    for share in SHARES:
        value = percentile(seen.latencies_ms, share)
        yield [f"answered, p{share} ms", "-" if value is None else f"{value:.0f}"]
