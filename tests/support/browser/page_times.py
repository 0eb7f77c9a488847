"""Measures the pages of a large run: seconds of each page, and the service's memory.

`python -m tests.support.browser.page_times FOLDER [NUM_SAMPLES]` makes a run of 100,000 samples in
FOLDER, starts the trainer service there, and prints a table.
"""

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from tests.support.browser.stored_runs import fill, make_run

_PORT = 18990
NUM_TIMES = 15
_PAGES = {
    "all runs": "/",
    "a run": "/runs/large",
    "its live part": "/runs/large/live",
    "groups, first page": "/runs/large/samples",
    "groups, page after step 700": "/runs/large/samples?after=700.1",
    "one step": "/runs/large/samples?step=500",
    "failed": "/runs/large/samples?outcome=failed",
    "discarded": "/runs/large/samples?kept=discarded",
    "a task": "/runs/large/samples?task=family-3/12003",
    "a tag": "/runs/large/samples?tag=domain:code",
    "a component": "/runs/large/samples?component=tests%3C0.5",
    "a text that many have": "/runs/large/samples?text=sorted+map",
    "a text that nobody has": "/runs/large/samples?text=no+such+text",
    "a sample": "/runs/large/sample?group=run/8007/family-2/8007/v501/code.dense&place=1",
}


def main(folder: Path, num_samples: int) -> None:
    """Print the times."""
    if not (folder / "large").exists():
        fill(make_run(folder / "large"), num_samples)
    with served(folder) as service:
        before = memory_mib(service)
        first, took_s = _read_all()
        say(f"first page {first * 1000:.0f} ms; all samples read after {took_s:.1f} s")
        for name, path in _PAGES.items():
            times = [get(path)[0] for _ in range(NUM_TIMES)]
            say(f"{name:<28} median {median(times):6.1f} ms, most {max(times):6.1f} ms")
        after = memory_mib(service)
        say(f"memory of the service: {before:.0f} MiB at its start, {after:.0f} MiB now")


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """Serve a folder of runs; yield the service's process."""
    command = [sys.executable, "-m", "assay_shared.cli", "trainer", "serve", "--port", str(_PORT)]
    environment = os.environ | {"ASSAY_RUNS": str(folder), "ASSAY_LOG_LEVEL": "ERROR"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as service:
        try:
            _wait()
            yield service.pid
        finally:
            service.terminate()
            service.wait(30)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def get(path: str) -> tuple[float, str]:
    """Return the milliseconds of a page, and the page."""
    started = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{_PORT}{path}", timeout=60) as answer:
        content = answer.read().decode()
    return (time.perf_counter() - started) * 1000, content


def _wait() -> None:
    for _ in range(600):
        try:
            get("/health")
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the service does not start")


def _read_all() -> tuple[float, float]:
    """Return the seconds of the first page, and those until all samples are read."""
    started = time.perf_counter()
    first = get("/runs/large/samples")[0] / 1000
    for _ in range(3000):
        if not re.search("are left", get("/runs/large/live")[1]):
            break
        time.sleep(0.2)
    return first, time.perf_counter() - started


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    (found,) = re.findall(r"VmRSS:\s+(\d+) kB", status)
    return int(found) / 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
