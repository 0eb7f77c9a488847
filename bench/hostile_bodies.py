"""Measures latencies of /health, and memory, while a service refuses hostile bodies.

    python -m bench.hostile_bodies [--bytes 4194304] [--service judge]

Real services on loopback, all five at once. Each kind of body goes to each route of a service in
turn, as large as the route accepts or as `--bytes`. Another client requests /health all the time.
Memory is of the service and of its processes for reading bodies, without files. Their first use of
memory, for their first body, does not count.
"""

import argparse
import json
import tempfile
import time
import urllib.request
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.support.hostile_bodies import (
    NAMES,
    Running,
    Watch,
    hostile_bodies,
    post,
    quantile,
    routes_of,
    running_services,
)
from tests.support.policies import make_policy_folder

OUTPUT = Path(__file__).parent / "results" / "hostile_bodies.json"
_MIB = 2**20
_IDLE_S = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--bytes", type=int, default=4 * _MIB, help="largest body")
    parser.add_argument("--service", choices=NAMES, action="append", help="default: all")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_policy_folder(folder / "policy")
        with running_services(folder, folder / "policy") as services:
            rows = [
                row
                for service in given.service or NAMES
                for row in measure(service, services[service], given.bytes)
            ]
    given.output.write_text(json.dumps({"bytes": given.bytes, "rows": rows}, indent=1) + "\n")


def measure(service: str, running: Running, num_bytes: int) -> list[dict[str, Any]]:
    """Return a row for each kind of body, and a row for all; print them."""
    url, pid = running
    with urllib.request.urlopen(f"{url}/openapi.json", timeout=60) as response:
        routes = list(routes_of(json.load(response), limit_bytes=32 * _MIB))
    by_kind = defaultdict(list)
    for route in routes:
        for what, make in hostile_bodies(route, 300_000).items():
            by_kind["a list of 1.5 as a field" if " as " in what else what].append((route, what))
            if what == "long texts":
                post(url, route, make())
    watch = Watch(url, pid)
    rows: list[dict[str, Any]] = []
    latencies: list[float] = []
    most = 0
    try:
        watch.begin()
        time.sleep(_IDLE_S)  # latencies from other work on this machine
        rows.append(_row(service, "no body", set(), watch.latencies_s, 0))
        for kind, requests in by_kind.items():
            bodies = [(route, hostile_bodies(route, num_bytes)[what]()) for route, what in requests]
            # The client's own work is over at this point: from now on, only the service delays.
            before = watch.begin()
            statuses = {post(url, route, body).status for route, body in bodies}
            time.sleep(0.2)
            latencies += watch.latencies_s
            most = max(most, watch.most_bytes - before)
            rows.append(_row(service, kind, statuses, watch.latencies_s, watch.most_bytes - before))
    finally:
        watch.close()
    return [*rows, _row(service, "all", set(), latencies, most)]


def _row(
    service: str, kind: str, statuses: set[int], latencies_s: list[float], growth: int
) -> dict[str, Any]:
    row = {
        "service": service,
        "body": kind,
        "statuses": sorted(statuses),
        "num_looks": len(latencies_s),
        "p50_ms": round(quantile(latencies_s, 0.5) * 1000, 1),
        "p99_ms": round(quantile(latencies_s, 0.99) * 1000, 1),
        "worst_ms": round(max(latencies_s) * 1000, 1),
        "growth_mb": round(growth / 1e6, 1),
    }
    print(*row.values(), sep=" | ", flush=True)
    return row


if __name__ == "__main__":
    main()
