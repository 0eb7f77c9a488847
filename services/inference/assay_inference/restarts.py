"""How often an engine that fails is started again."""

import time
from collections import deque

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0


class RestartBudget:
    """At most `max_restarts` within `window_s`, with a wait that doubles."""

    def __init__(self, max_restarts: int, window_s: float) -> None:
        self._max_restarts = max_restarts
        self._window_s = window_s
        self._starts: deque[float] = deque()

    def next_wait_s(self) -> float | None:
        """Counts one more restart: how long to wait before it; None when the budget is spent."""
        now = time.monotonic()
        while self._starts and now - self._starts[0] > self._window_s:
            self._starts.popleft()
        if len(self._starts) >= self._max_restarts:
            return None
        self._starts.append(now)
        return float(min(_FIRST_WAIT_S * 2 ** (len(self._starts) - 1), _LONGEST_WAIT_S))
