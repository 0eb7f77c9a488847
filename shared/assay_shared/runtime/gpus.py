"""Counts the GPUs of this host without a CUDA library."""

from pathlib import Path


def num_gpus() -> int:
    """Return the number of NVIDIA GPUs visible here: in a container, only its assigned GPUs."""
    return sum(path.name.removeprefix("nvidia").isdigit() for path in Path("/dev").glob("nvidia*"))
