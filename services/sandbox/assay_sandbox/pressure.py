"""How much of a time some process of this host had to wait for a core, as the kernel tells it."""

import time
from pathlib import Path

_PRESSURE = Path("/proc/pressure/cpu")


class Crowding:
    """Measures from its making on. A kernel that does not tell says that nobody waited."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self._stalled_before_s = _stalled_s()

    def share(self) -> float:
        """Return the share of the time so far in which a process waited for a core."""
        took_s = time.monotonic() - self._started_s
        stalled_s = _stalled_s() - self._stalled_before_s
        return min(1.0, max(0.0, stalled_s / took_s)) if took_s > 0 else 0.0


def _stalled_s() -> float:
    try:
        text = _PRESSURE.read_text()
    except OSError:
        return 0.0
    first = text.partition("\n")[0]  # "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS"
    total = first.rpartition("total=")[2]
    return int(total) / 1e6 if total.isdigit() else 0.0
