"""Load on a sandbox, ours or SandboxFusion: throughput and latency at each level of concurrency.

Every body is checked: a wrong or truncated answer does not count as throughput.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import aiohttp

from assay_shared.settings.environment import ServiceSettings

_TIMEOUT_S = 120.0
_REFUSED = {429, 503, 504}
_NUM_TESTS = 20
#: Percentiles of latency to show.
_SHARES = (50, 95, 99)
_MAX_SAID = 1000


class Format(StrEnum):
    """The API format of a sandbox."""

    ASSAY = "assay"
    SANDBOX_FUSION = "sandboxfusion"


class LoadProgram(StrEnum):
    """The program to run: `print(1)`, or a program with twenty stdin tests."""

    PRINT = "print"
    JUDGE = "judge"


@dataclass(frozen=True)
class Workload:
    """A request, and the function to check an answer to it."""

    path: str
    body: dict[str, Any]
    is_right: Callable[[dict[str, Any]], bool]


_JUDGED = "a, b = map(int, input().split())\nprint(a + b)"
_CASES = [
    {"kind": "stdin", "stdin": f"{n} {n * n}", "expected_stdout": f"{n + n * n}"}
    for n in range(_NUM_TESTS)
]
WORKLOADS: dict[tuple[Format, LoadProgram], Workload] = {
    (Format.ASSAY, LoadProgram.PRINT): Workload(
        "/v1/execute",
        {"code": "print(1)"},
        lambda answer: answer["status"] == "accepted" and answer["stdout"] == "1\n",
    ),
    (Format.ASSAY, LoadProgram.JUDGE): Workload(
        "/v1/test",
        {"code": _JUDGED, "cases": _CASES},
        lambda answer: [case["status"] for case in answer["cases"]] == ["accepted"] * _NUM_TESTS,
    ),
    (Format.SANDBOX_FUSION, LoadProgram.PRINT): Workload(
        "/run_code",
        {"code": "print(1)", "language": "python"},
        lambda answer: answer["status"] == "Success" and answer["run_result"]["stdout"] == "1\n",
    ),
    (Format.SANDBOX_FUSION, LoadProgram.JUDGE): Workload(
        "/submit",
        {
            "dataset": "load",
            "id": 1,
            "completion": f"```python\n{_JUDGED}\n```",
            "config": {
                "dataset_type": "CommonOJDataset",
                "language": "python",
                "run_timeout": 10,
                "provided_data": {
                    "id": 1,
                    "content": "",
                    "labels": {},
                    "test": [
                        {
                            "input": {"stdin": case["stdin"]},
                            "output": {"stdout": case["expected_stdout"]},
                        }
                        for case in _CASES
                    ],
                },
                "extra": {"run_all_cases": True},
            },
        },
        lambda answer: answer["accepted"] and len(answer["tests"]) == _NUM_TESTS,
    ),
}


class LoadOutcome(StrEnum):
    """The outcome of a request. `REFUSED` is a status of overload; `ERROR` means no answer came."""

    RIGHT = "right"
    WRONG = "wrong"
    REFUSED = "refused"
    ERROR = "error"


@dataclass(frozen=True)
class LoadAnswer:
    """The answer to a request. An answer that is not right has its `headers` and text (`said`)."""

    outcome: LoadOutcome
    took_ms: float = 0.0
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    said: str = ""


@dataclass
class LoadStep:
    """The figures at a concurrency. Latencies are of right answers, in milliseconds."""

    concurrency: int
    duration_s: float = 0.0
    num_right: int = 0
    num_wrong: int = 0
    num_refused: int = 0
    num_errors: int = 0
    latencies_ms: list[float] = field(default_factory=list)

    def add(self, answer: LoadAnswer) -> None:
        match answer.outcome:
            case LoadOutcome.RIGHT:
                self.num_right += 1
                self.latencies_ms.append(answer.took_ms)
            case LoadOutcome.WRONG:
                self.num_wrong += 1
            case LoadOutcome.REFUSED:
                self.num_refused += 1
            case LoadOutcome.ERROR:
                self.num_errors += 1

    @property
    def per_s(self) -> float:
        return self.num_right / self.duration_s

    def percentile(self, share: int) -> float | None:
        """Return the percentile in milliseconds; None with fewer than two right answers."""
        return percentile(self.latencies_ms, share)

    def facts(self) -> dict[str, object]:
        """Return everything but the single latencies, for JSON."""
        known = {k: v for k, v in asdict(self).items() if k != "latencies_ms"}
        shares = {f"p{share}_ms": self.percentile(share) for share in _SHARES}
        return known | {"per_s": self.per_s} | shares


def open_session(settings: ServiceSettings) -> aiohttp.ClientSession:
    """Return a session with unlimited connections, and with the token if it is set."""
    headers = {"content-type": "application/json"}
    if (token := settings.token_of("sandbox")) is not None:
        headers["authorization"] = f"Bearer {token}"
    return aiohttp.ClientSession(
        # Shorter than the time after which services close an idle connection.
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0),
        timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
        headers=headers,
    )


def percentile(values: Sequence[float], share: int) -> float | None:
    """Return a percentile, the maximum for 100; None for fewer than two values."""
    if len(values) < 2:
        return None
    if share == 100:
        return max(values)
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]


async def put_load(
    url: str,
    workload: Workload,
    concurrencies: list[int],
    duration_s: float,
    settings: ServiceSettings,
    on_step: Callable[[LoadStep], None] = lambda step: None,
) -> list[LoadStep]:
    """Send requests without pause at each concurrency for `duration_s`; return the figures of each.

    Requests in flight at the end are awaited.
    """
    steps = []
    async with open_session(settings) as session:
        target = url.rstrip("/") + workload.path
        for concurrency in concurrencies:
            steps.append(await _one_step(session, target, workload, concurrency, duration_s))
            on_step(steps[-1])
    return steps


async def _one_step(
    session: aiohttp.ClientSession,
    target: str,
    workload: Workload,
    concurrency: int,
    duration_s: float,
) -> LoadStep:
    step = LoadStep(concurrency)
    started = time.monotonic()
    body = json.dumps(workload.body).encode()

    async def ask_on() -> None:
        while time.monotonic() - started < duration_s:
            step.add(await ask(session, target, body, workload))

    await asyncio.gather(*(ask_on() for _ in range(concurrency)))
    step.duration_s = time.monotonic() - started
    return step


async def ask(
    session: aiohttp.ClientSession, target: str, body: bytes, workload: Workload
) -> LoadAnswer:
    """Send a request and return the answer. Errors are returned as an answer, not raised."""
    began = time.monotonic()
    try:
        async with session.post(target, data=body) as response:
            text = await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        return LoadAnswer(LoadOutcome.ERROR, said=f"{type(error).__name__}: {error}")
    took_ms, status = 1000 * (time.monotonic() - began), response.status
    try:
        if status == 200 and workload.is_right(json.loads(text)):
            return LoadAnswer(LoadOutcome.RIGHT, took_ms, status)
    except (ValueError, KeyError, TypeError):
        pass  # an answer of another shape is as wrong as another value
    outcome = LoadOutcome.REFUSED if status in _REFUSED else LoadOutcome.WRONG
    said = f"{status} {text[:_MAX_SAID].decode(errors='replace')}"
    return LoadAnswer(outcome, took_ms, status, response.headers, said)


def rows(steps: list[LoadStep]) -> Iterator[list[str]]:
    """Yield a table's rows, a row for each step."""
    for step in steps:
        shown = (step.percentile(share) for share in _SHARES)
        yield [
            str(step.concurrency),
            f"{step.per_s:.1f}",
            *("-" if value is None else f"{value:.1f}" for value in shown),
            str(step.num_wrong),
            str(step.num_refused),
            str(step.num_errors),
        ]


HEADINGS = [
    "concurrency", "right/s", *(f"p{share} ms" for share in _SHARES), "wrong", "refused", "errors",
]  # fmt: skip


def draw(steps: list[LoadStep], title: str, path: Path) -> None:
    """Draw throughput and latency against concurrency into the file `path`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    x = [step.concurrency for step in steps]
    left.plot(x, [step.per_s for step in steps], marker="o", color="#2563eb")
    left.set_ylabel("right answers per second")
    left.set_ylim(bottom=0)
    for share, colour in zip(_SHARES, ("#93c5fd", "#2563eb", "#1e3a8a"), strict=True):
        values = [step.percentile(share) or float("nan") for step in steps]
        right.plot(x, values, marker="o", color=colour, label=f"p{share}")
    right.set_ylabel("latency, ms")
    right.set_yscale("log")
    right.legend(frameon=False)
    for ax in (left, right):
        ax.set_xscale("log", base=2)
        ax.set_xticks(x, [str(value) for value in x])
        ax.set_xlabel("requests at once")
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def parse_concurrencies(text: str) -> list[int]:
    """Return a text like `1,8,64` as numbers.

    Raises:
        ValueError: it is not a list of numbers above 0.
    """
    found = [int(part) for part in text.split(",")]
    if not found or any(value < 1 for value in found):
        raise ValueError(text)
    return found
