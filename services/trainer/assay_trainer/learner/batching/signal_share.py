"""Estimates how many groups have to be played for one with signal."""

from collections import deque

from assay_shared.statistics.interval import wilson_interval

#: The share moves as the policy learns: older groups say little about the next ones.
_NUM_GROUPS = 256
_CONFIDENCE = 0.95


class SignalShare:
    """The share of the last groups that had signal."""

    def __init__(self) -> None:
        self._had_signal: deque[bool] = deque(maxlen=_NUM_GROUPS)

    def count(self, has_signal: bool) -> None:
        self._had_signal.append(has_signal)

    @property
    def upper(self) -> float:
        """Return the upper bound of the share; 1 before the first group.

        With the bound in place of the estimate, seldom more groups have signal than were wanted.
        """
        if not self._had_signal:
            return 1.0
        return wilson_interval(sum(self._had_signal), len(self._had_signal), _CONFIDENCE).high
