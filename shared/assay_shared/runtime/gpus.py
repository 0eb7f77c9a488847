"""Finds the GPUs of this host without a CUDA library."""

from pathlib import Path

from assay_shared.errors import Conflict

_DEVICES = Path("/dev")


def num_gpus() -> int:
    """Return the number of NVIDIA GPUs visible here: in a container, only its assigned GPUs."""
    names = (path.name.removeprefix("nvidia") for path in _DEVICES.glob("nvidia*"))
    return sum(name.isdigit() for name in names)


def require_gpu() -> None:
    """Check that there is a GPU.

    Raises:
        Conflict: none is visible.
    """
    if num_gpus() == 0:
        raise Conflict(
            "no GPU is visible here, and this image is the one for GPUs",
            hint="give the container one: NVIDIA's driver, its container toolkit and --gpus all; "
            "or take the image for the CPU",
        )
