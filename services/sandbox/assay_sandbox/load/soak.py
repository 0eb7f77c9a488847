"""A soak test: a sandbox under full load for long, with programs of known verdicts.

No verdict may be wrong, nothing may grow, and nothing may be left when the service has ended.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import aiohttp

from assay_sandbox.load.footprint import TOLERANCES, Footprint, Growth, MemorySample, growth
from assay_sandbox.load.load import LoadOutcome, ask, open_session
from assay_sandbox.load.own_service import (
    num_rebuilds,
    own_service,
    service_folders,
    wait_until_ready,
)
from assay_sandbox.load.soak_programs import KNOWN, Known, endless
from assay_shared.settings.environment import ServiceSettings

_PATIENCE_S = 5.0
_SAMPLE_EVERY_S = 1.0
_LEAST_SAMPLES = 50
_MAX_DETAILS = 20
#: A fixed number of slots: any growth is then a leak.
_FIXED = {"ASSAY_SANDBOX_MAX_SLOTS": "1"}


@dataclass
class Soak:
    """The result of a soak. `right` and `not_right` count answers by the name of the program."""

    duration_s: float
    concurrency: int
    isolation: str = ""
    right: Counter[str] = field(default_factory=Counter)
    not_right: Counter[str] = field(default_factory=Counter)
    #: The first answers that were not right, in full.
    details: list[str] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    samples: list[MemorySample] = field(default_factory=list)
    #: Right answers, and rebuilt slots, until each sample.
    answered: list[int] = field(default_factory=list)
    rebuilds: list[int] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        return self.right.total() / self.duration_s

    def growth(self) -> dict[str, Growth]:
        return growth(self.samples)

    def troubles(self) -> list[str]:
        """Return the reasons for a failed soak; empty if it has passed."""
        found = [f"{n} answers of {name} are not right" for name, n in self.not_right.items()]
        found += [f"no answer of {known.name}" for known in KNOWN if not self.right[known.name]]
        for name, seen in self.growth().items():
            if seen.is_too_much:
                found.append(f"{name} grew from {seen.early:.0f} to {seen.late:.0f}")
        return found + [f"left behind: {what}" for what in self.left]

    def facts(self) -> dict[str, object]:
        """Return everything, for JSON."""
        known = asdict(self) | {"right": dict(self.right), "not_right": dict(self.not_right)}
        known["growth"] = {name: asdict(seen) for name, seen in self.growth().items()}
        return known | {"per_s": self.per_s, "troubles": self.troubles()}


async def soak(
    duration_s: float,
    concurrency: int,
    settings: ServiceSettings,
    on_sample: Callable[[Soak], None] = lambda seen: None,
) -> Soak:
    """Start a service, put load on it, sample it and end it; return the result.

    Raises:
        SandboxFault: the service does not start.
    """
    seen = Soak(duration_s, concurrency)
    with service_folders() as (folder, temporary):
        async with (
            own_service(folder / "log", temporary, _FIXED) as (url, footprint),
            open_session(settings) as session,
        ):
            seen.isolation = await wait_until_ready(session, url, folder / "log")
            await _drive(session, url, footprint, seen, on_sample)
        seen.left = footprint.left(_PATIENCE_S)
    return seen


async def _drive(
    session: aiohttp.ClientSession,
    url: str,
    footprint: Footprint,
    seen: Soak,
    on_sample: Callable[[Soak], None],
) -> None:
    """Send requests without pause for the whole time, sample every second, await all answers."""
    started = time.monotonic()
    programs = endless()
    every_s = min(_SAMPLE_EVERY_S, seen.duration_s / _LEAST_SAMPLES)

    async def ask_on() -> None:
        while time.monotonic() - started < seen.duration_s:
            await ask_known(session, url, next(programs), seen)

    async def watch() -> None:
        while (now_s := time.monotonic() - started) < seen.duration_s:
            seen.samples.append(await asyncio.to_thread(footprint.sample))
            seen.times_s.append(now_s)
            seen.answered.append(seen.right.total())
            seen.rebuilds.append(await num_rebuilds(session, url))
            on_sample(seen)
            await asyncio.sleep(every_s)

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        for _ in range(seen.concurrency):
            group.create_task(ask_on())
    seen.duration_s = time.monotonic() - started


async def ask_known(session: aiohttp.ClientSession, url: str, known: Known, seen: Soak) -> None:
    """Send a request and compare its verdict with the known verdict."""
    body = json.dumps(known.workload.body).encode()
    answer = await ask(session, url + known.workload.path, body, known.workload)
    if answer.outcome is LoadOutcome.RIGHT:
        seen.right[known.name] += 1
        return
    seen.not_right[known.name] += 1
    if len(seen.details) < _MAX_DETAILS:
        seen.details.append(f"{known.name}: {answer.said}")


PROGRAM_HEADINGS = ["program", "right", "not right"]
GROWTH_HEADINGS = ["held", "second fifth", "last fifth", "may grow by", ""]


def program_rows(seen: Soak) -> Iterator[list[str]]:
    """Yield a table's rows, a row for each program."""
    for known in KNOWN:
        yield [known.name, str(seen.right[known.name]), str(seen.not_right[known.name])]


def growth_rows(seen: Soak) -> Iterator[list[str]]:
    """Yield a table's rows, a row for each quantity that must not grow."""
    for name, one in seen.growth().items():
        values = (_shown(name, value) for value in (one.early, one.late, one.tolerance))
        yield [name, *values, "TOO MUCH" if one.is_too_much else "ok"]


def _shown(name: str, value: float) -> str:
    return f"{value / 2**20:.1f} MiB" if name.endswith("_bytes") else f"{value:g}"


def draw(seen: Soak, path: Path) -> None:
    """Draw the footprint and the answers per second over time into the file `path`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [asdict(sample) for sample in seen.samples]
    figure, axes = plt.subplots(2, 2, figsize=(10, 5.5), sharex=True)
    panels = {
        "resident memory, MiB": [name for name in TOLERANCES if name.endswith("_bytes")],
        "file descriptors": ["descriptors"],
        "number": ["processes", "cgroups", "files"],
    }
    for ax, (label, names) in zip(axes.flat, panels.items(), strict=False):
        for name in names:
            scale = 2**20 if name.endswith("_bytes") else 1
            values = [row[name] / scale for row in rows]
            ax.plot(seen.times_s, values, linewidth=1, label=name.removesuffix("_bytes"))
        ax.set_ylabel(label)
        ax.legend(frameon=False)
    looks = pairwise(zip(seen.times_s, seen.answered, strict=True))
    rates = [(n1 - n0) / (t1 - t0) for (t0, n0), (t1, n1) in looks]
    axes[1, 1].plot(seen.times_s[1:], rates, linewidth=1, color="#2563eb")
    axes[1, 1].set_ylabel("right answers per second")
    for ax in axes.flat:
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[1]:
        ax.set_xlabel("seconds")
    figure.suptitle(f"{seen.right.total()} right answers, isolation {seen.isolation}")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
