"""A pool of worker processes; they end when their parent process ends."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from assay_shared.runtime.processes import tie_to


def pool(num_processes: int) -> ProcessPoolExecutor:
    """Return a pool of spawned processes, because a solver's threads do not survive a fork."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(num_processes, context, initializer=tie_to, initargs=(os.getpid(),))
