"""`assay bench` as a process."""

import subprocess
import sys


def bench(*arguments: str, timeout_s: float) -> "subprocess.CompletedProcess[str]":
    """It has ended; its output holds both streams."""
    return subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", "bench", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
