"""Random and hostile sources, read in a process under watch: each ends in a verdict."""

import json
import os
import subprocess
import sys
from pathlib import Path

#: 10,000 by night.
NUM_SOURCES = 10_000 if "ASSAY_NIGHTLY" in os.environ else 400
ROOT = Path(__file__).parents[5]
#: CPython parses the source, and on a syntax error looks for a file of the source's name.
HARMLESS = {"compile", "builtins.id", "open <workflow>"}


def test_every_source_ends_in_a_verdict_and_nothing_runs(tmp_path: Path) -> None:
    """The process has a thread with a stack of 512 KiB: deep nesting must not end it."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.support.workflow_attacks", str(NUM_SOURCES), "7", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    report = json.loads(child.stdout)
    sys.stderr.write(f"{report}\n")
    assert sum(report["verdicts"].values()) == 2 * NUM_SOURCES
    assert min(report["verdicts"].get(f"text: {kind}", 0) for kind in ("refused", "problems")) > 0
    assert not report["ran"]
    assert set(report["events"]) <= HARMLESS
    assert report["events"]["compile"] > NUM_SOURCES / 10
    assert report["slowest_s"] < 1.0, report["slowest"]
    assert report["grown_kib"] < 16 * 1024
    assert list(tmp_path.iterdir()) == []
