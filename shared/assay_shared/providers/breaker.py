"""A circuit breaker: after failures in a row a provider is not asked for a cooldown."""

import time
from collections.abc import Callable

from assay_shared.errors import ModelFault


class BreakerOpen(ModelFault):
    """The circuit is open: the provider was not asked."""


class Breaker:
    """A circuit breaker: open after `open_after` failures in a row.

    After the cooldown a single request is let through as a trial. Its success closes the circuit.
    """

    def __init__(
        self,
        open_after: int,
        cooldown_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_after = open_after
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._num_failures = 0
        self._open_until: float | None = None
        self._is_trying = False

    @property
    def is_open(self) -> bool:
        return self._open_until is not None

    def enter(self) -> None:
        """Call before each request; call `succeeded`, `failed` or `left` after it.

        Raises:
            BreakerOpen: the circuit is open; `retry_after_s` says for how long.
        """
        if self._open_until is None:
            return
        left_s = self._open_until - self._clock()
        if left_s > 0 or self._is_trying:
            raise BreakerOpen(
                f"left alone after {self._num_failures} failures in a row",
                retry_after_s=max(left_s, 1.0),
            )
        self._is_trying = True

    def succeeded(self) -> None:
        self._num_failures, self._open_until, self._is_trying = 0, None, False

    def failed(self) -> None:
        self._num_failures += 1
        self._is_trying = False
        if self._num_failures >= self._open_after:
            self._open_until = self._clock() + self._cooldown_s

    def left(self) -> None:
        """Record a request that was given up: it says nothing about the provider."""
        self._is_trying = False
