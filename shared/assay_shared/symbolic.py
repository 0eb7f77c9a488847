"""Equality of formulas by math-verify, in a process that can be ended: sympy has no time limit."""

import asyncio
import multiprocessing
from concurrent.futures import TimeoutError as OutOfTime

from pebble import ProcessExpired, ProcessPool

from assay_shared.errors import InternalFault, TimedOut

_MAX_LENGTH = 2000


class Symbolic:
    """One worker process, started when it is first needed."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._pool: ProcessPool | None = None

    async def equal(self, answer: str, reference: str) -> bool:
        """Whether both are the same value.

        Raises:
            TimedOut: it cannot be told in time.
            InternalFault: the comparison itself broke.
        """
        if max(len(answer), len(reference)) > _MAX_LENGTH:
            return False
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPool(max_workers=1, context=spawn)
        work = self._pool.schedule(_equal, args=[answer, reference], timeout=self._timeout_s)
        try:
            return await asyncio.wrap_future(work)
        except OutOfTime:
            raise TimedOut(f"no comparison of formulas within {self._timeout_s} s") from None
        except ProcessExpired as error:
            raise InternalFault(f"the comparison of formulas broke: {error}") from error

    def close(self) -> None:
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()


def _equal(answer: str, reference: str) -> bool:
    from assay_shared.answers.equality import equal_by_proof

    return equal_by_proof(answer, reference)
