"""Processes that share the work, and end with the one that started them."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from assay_shared.runtime.processes import tie_to


def pool(num_processes: int) -> ProcessPoolExecutor:
    """Fresh processes, since a solver's threads do not survive a fork."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(num_processes, context, initializer=tie_to, initargs=(os.getpid(),))
