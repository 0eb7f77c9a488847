"""Several processes with a common policy to train, on this machine's CPU."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
FOLLOW = (sys.executable, "-m", "assay_trainer.learner.follower")


def environments(size: int) -> list[dict[str, str]]:
    """Return the variables of each rank, as torchrun writes them."""
    port = free_port()
    return [
        {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(size),
            "RANK": str(rank),
            "LOCAL_RANK": "0",
            "OMP_NUM_THREADS": "1",
        }
        for rank in range(size)
    ]


@contextmanager
def processes(commands: Sequence[Sequence[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Yield a process for each command, rank by rank; at the end none is left.

    A process that is left says in its output where its threads are.
    """
    started = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | one | {"PYTHONFAULTHANDLER": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command, one in zip(commands, environments(len(commands)), strict=True)
    ]
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGABRT)
                with suppress(subprocess.TimeoutExpired):
                    sys.stdout.write(process.communicate(timeout=20)[0])
            process.kill()
            process.communicate()
