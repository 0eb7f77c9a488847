"""The GPUs of this machine, or those named by the user."""

import re
import subprocess
from dataclasses import dataclass

from assay_shared.errors import ConfigError

_ASK = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
_TIMEOUT_S = 20.0
_NAMED = re.compile(r"(\d{1,3})x(\d{1,4})")
GIB = 2**30


@dataclass(frozen=True)
class CardSet:
    """Equal GPUs: their number and the memory of one in bytes; `found_by` is the source."""

    number: int
    memory: int
    found_by: str

    @property
    def told(self) -> str:
        """Return the cards in words."""
        if not self.number:
            return f"no GPU ({self.found_by})"
        name = "GPU" if self.number == 1 else "GPUs"
        return f"{self.number} {name} of {self.memory / GIB:.0f} GiB ({self.found_by})"


def find_cards(given: str | None) -> CardSet:
    """Return the GPUs by `given` (as 2x80, or none), else by nvidia-smi, else by torch.

    Of GPUs with different memory, the smallest memory counts.

    Raises:
        ConfigError: `given` has another form.
    """
    if given is not None:
        return _named(given)
    return _by_nvidia_smi() or _by_torch()


def _named(given: str) -> CardSet:
    if given == "none":
        return CardSet(0, 0, "--gpus none")
    found = _NAMED.fullmatch(given)
    if found is None or not int(found[1]) or not int(found[2]):
        raise ConfigError(
            f"{given!r:.100} must be NUMBERxGIB, as 2x80 for two GPUs of 80 GiB, or none",
            field="--gpus",
        )
    return CardSet(int(found[1]), int(found[2]) * GIB, f"--gpus {given}")


def _by_nvidia_smi() -> CardSet | None:
    try:
        told = subprocess.run(
            _ASK, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    sizes = [line.rpartition(",")[2].strip() for line in told.splitlines()]
    known = [int(one) * 2**20 for one in sizes if one.isdecimal()]
    return CardSet(len(known), min(known), "nvidia-smi") if known else None


def _by_torch() -> CardSet:
    import torch

    number = torch.cuda.device_count() if torch.cuda.is_available() else 0
    sizes = [torch.cuda.get_device_properties(place).total_memory for place in range(number)]
    return CardSet(number, min(sizes, default=0), "torch" if number else "nvidia-smi and torch")
