"""This sandbox and SandboxFusion side by side: same programs, same load, bursts in turn.

Start both by yourself, on the same machine, then:

    python bench/sandbox_vs_sandboxfusion.py --ours http://127.0.0.1:8002 \\
        --theirs http://127.0.0.1:8080 --output bench/results/sandbox_vs_sandboxfusion.json

A burst on one is followed by a burst on the other, so that whatever else the machine does meets
both. Only right answers count. The ratio is that of the medians; its spread is that of the bursts.
"""

import argparse
import asyncio
import json
import statistics
from pathlib import Path

from assay_sandbox.load import WORKLOADS, Format, Program, Step, put_load
from assay_shared.settings import ServiceSettings, read_settings

POINTS = [(Program.PRINT, 1), (Program.PRINT, 8), (Program.PRINT, 64), (Program.JUDGE, 8)]


async def compare(
    urls: dict[Format, str], num_bursts: int, burst_s: float, settings: ServiceSettings
) -> list[dict[str, object]]:
    rows = []
    for program, concurrency in POINTS:
        seen: dict[Format, list[Step]] = {name: [] for name in urls}
        for _ in range(num_bursts):
            for name, url in urls.items():
                workload = WORKLOADS[name, program]
                seen[name] += await put_load(url, workload, [concurrency], burst_s, settings)
        rows.append(row(program, concurrency, seen))
        print(line(rows[-1]), flush=True)
    return rows


def row(program: Program, concurrency: int, seen: dict[Format, list[Step]]) -> dict[str, object]:
    ours, theirs = (sorted(step.per_s for step in seen[name]) for name in Format)
    p50s = {name: statistics.median(s.percentile(50) or 0.0 for s in seen[name]) for name in Format}
    failed = {
        name: sum(s.num_wrong + s.num_refused + s.num_errors for s in seen[name]) for name in Format
    }
    return {
        "program": program,
        "concurrency": concurrency,
        "ours_per_s": ours,
        "theirs_per_s": theirs,
        "ours_p50_ms": p50s[Format.ASSAY],
        "theirs_p50_ms": p50s[Format.SANDBOX_FUSION],
        "ratio": statistics.median(ours) / statistics.median(theirs),
        "ratio_low": ours[0] / theirs[-1],
        "ratio_high": ours[-1] / theirs[0] if theirs[0] else float("inf"),
        "ours_not_right": failed[Format.ASSAY],
        "theirs_not_right": failed[Format.SANDBOX_FUSION],
    }


def line(facts: dict[str, object]) -> str:
    return (
        "| {program} | {concurrency} | {ours:.0f} | {ours_p50_ms:.1f} | {theirs:.1f} | "
        "{theirs_p50_ms:.0f} | {ratio:.1f} ({ratio_low:.1f} to {ratio_high:.1f}) | "
        "{ours_not_right} / {theirs_not_right} |"
    ).format(
        **facts,
        ours=statistics.median(facts["ours_per_s"]),  # type: ignore[arg-type]
        theirs=statistics.median(facts["theirs_per_s"]),  # type: ignore[arg-type]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ours", default="http://127.0.0.1:8002")
    parser.add_argument("--theirs", default="http://127.0.0.1:8080")
    parser.add_argument("--bursts", type=int, default=5)
    parser.add_argument("--burst-s", type=float, default=2.0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    urls = {Format.ASSAY: arguments.ours, Format.SANDBOX_FUSION: arguments.theirs}
    print("| program | at once | ours/s | p50 ms | theirs/s | p50 ms | ratio | not right |")
    print("|---|---|---|---|---|---|---|---|")
    settings = read_settings(ServiceSettings)
    rows = asyncio.run(compare(urls, arguments.bursts, arguments.burst_s, settings))
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
