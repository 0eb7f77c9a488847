"""Compares sandboxes: the same programs, the same load by wrk, bursts in turn.

First start all sandboxes on the same machine. Then name each with its format and address; ratios
are to the first:

    python bench/sandbox_vs_sandboxfusion.py now=assay=http://127.0.0.1:8002 \\
        before=assay=http://127.0.0.1:8012 theirs=sandboxfusion=http://127.0.0.1:8080 \\
        --output bench/results/sandbox_vs_sandboxfusion.json

A burst on a sandbox is followed by a burst on the next, so other work on the machine affects all
alike. Only right answers count. A ratio is of the medians; its spread is of the bursts. Needs wrk
(Debian: wrk).
"""

import argparse
import json
import os
import re
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from assay_sandbox.load.load import WORKLOADS, Format, LoadProgram

POINTS = [
    (LoadProgram.PRINT, 1),
    (LoadProgram.PRINT, 8),
    (LoadProgram.PRINT, 64),
    (LoadProgram.JUDGE, 8),
]
#: The number of times each text appears in a right answer.
NEEDS = {
    (Format.ASSAY, LoadProgram.PRINT): {'"status":"accepted"': 1, r'"stdout":"1\n"': 1},
    (Format.ASSAY, LoadProgram.JUDGE): {'"status":"accepted"': 21},
    (Format.SANDBOX_FUSION, LoadProgram.PRINT): {'"status":"Success"': 1, r'"stdout":"1\n"': 1},
    (Format.SANDBOX_FUSION, LoadProgram.JUDGE): {'"accepted":true': 1, '"passed":true': 20},
}
_SCRIPT = Path(__file__).with_name("sandbox.lua")
_LINE = re.compile(r"([\d.]+) right/s, (\d+) not right, p50 ([\d.]+) ms, p99 ([\d.]+) ms")
#: After the burst, wrk waits at most this long for the last answers, then ends.
_GRACE_S = 60.0


@dataclass(frozen=True)
class Service:
    """A running sandbox."""

    name: str
    format: Format
    url: str


@dataclass
class Seen:
    """wrk's figures of a service at a point, burst by burst."""

    per_s: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    num_not_right: int = 0

    def add(self, output: str) -> None:
        found = _LINE.search(output)
        if found is None:
            raise SystemExit(f"wrk says nothing of its answers: {output}")
        self.per_s.append(float(found[1]))
        self.num_not_right += int(found[2])
        self.p50_ms.append(float(found[3]))
        self.p99_ms.append(float(found[4]))


def burst(service: Service, program: LoadProgram, concurrency: int, burst_s: float) -> str:
    """Put load on a service and return wrk's output."""
    key = (service.format, program)
    needs = "\n".join(f"{times} {text}" for text, times in NEEDS[key].items())
    target = service.url.rstrip("/") + WORKLOADS[key].path
    done = subprocess.run(
        [
            "wrk",
            "-t1",
            f"-c{concurrency}",
            f"-d{burst_s:g}",
            "--timeout",
            "60s",
            "-s",
            str(_SCRIPT),
            target,
        ],
        env=os.environ | {"BODY": json.dumps(WORKLOADS[key].body), "NEEDS": needs},
        capture_output=True,
        text=True,
        timeout=burst_s + _GRACE_S,
        check=True,
    )
    return done.stdout


def compare(
    services: list[Service], num_bursts: int, burst_s: float
) -> Iterator[dict[str, object]]:
    """Yield the facts of each point: each service's figures, and the ratios to the first."""
    for program, concurrency in POINTS:
        seen = {service.name: Seen() for service in services}
        for _ in range(num_bursts):
            for service in services:
                seen[service.name].add(burst(service, program, concurrency, burst_s))
        first = seen[services[0].name]
        yield {
            "program": program,
            "concurrency": concurrency,
            "seen": {name: asdict(one) for name, one in seen.items()},
            "ratios": {name: ratio(first, one) for name, one in list(seen.items())[1:]},
        }


def ratio(first: Seen, other: Seen) -> dict[str, float]:
    """Return the ratio of right answers a second, first over other, with the bursts' spread."""
    pairs = [one / two for one, two in zip(first.per_s, other.per_s, strict=True) if two]
    return {
        "median": statistics.median(first.per_s) / max(statistics.median(other.per_s), 1e-9),
        "lowest": min(pairs, default=float("inf")),
        "highest": max(pairs, default=float("inf")),
    }


def line(facts: dict[str, object]) -> str:
    """Return the point as a row of a table in Markdown."""
    cells = [str(facts["program"]), str(facts["concurrency"])]
    seen: dict[str, dict[str, list[float]]] = facts["seen"]  # type: ignore[assignment]
    for one in seen.values():
        cells.append(f"{statistics.median(one['per_s']):.1f}/s")
        cells.append(f"{statistics.median(one['p50_ms']):.1f} ms")
    ratios: dict[str, dict[str, float]] = facts["ratios"]  # type: ignore[assignment]
    cells += ["{median:.2f} ({lowest:.2f} to {highest:.2f})".format(**r) for r in ratios.values()]
    return f"| {' | '.join([*cells, str([one['num_not_right'] for one in seen.values()])])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("services", nargs="+", help="NAME=assay|sandboxfusion=URL, two or more")
    parser.add_argument("--bursts", type=int, default=5)
    parser.add_argument("--burst-s", type=float, default=2.0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    services = [
        Service(name, Format(form), url)
        for name, form, url in (text.split("=", 2) for text in arguments.services)
    ]
    names = [cell for one in services for cell in (one.name, "p50")]
    heading = [
        "program",
        "at once",
        *names,
        *(f"{services[0].name}/{s.name}" for s in services[1:]),
    ]
    print(f"| {' | '.join([*heading, 'not right'])} |", flush=True)
    print("|---" * (len(heading) + 1) + "|", flush=True)
    rows = []
    for facts in compare(services, arguments.bursts, arguments.burst_s):
        rows.append(facts)
        print(line(facts), flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
