"""Requests that no engine could serve: an autoscaler counts them to start one."""

import time

#: A client asks again within seconds, and an autoscaler looks every few seconds.
_WINDOW_S = 60.0


class Unserved:
    """The time of the last request that was refused because nothing could serve it."""

    def __init__(self) -> None:
        self._last_at: float | None = None

    def note(self) -> None:
        """Note a refusal."""
        self._last_at = time.monotonic()

    @property
    def is_recent(self) -> bool:
        """Return True if a request was refused within the last minute."""
        return self._last_at is not None and time.monotonic() - self._last_at < _WINDOW_S
