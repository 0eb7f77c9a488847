"""The router's view of a replica: version, requests in flight, and health."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from assay_inference.engines.engine import Loaded, ResolvedUpdate
from assay_inference.engines.replicas.replica import Replica
from assay_shared.errors import (
    AssayError,
    Conflict,
    NotReady,
    TimedOut,
    Unreachable,
    WeightsRefused,
    to_failure,
)
from assay_shared.types import PolicyVersion, ReplicaStatus

Answer = TypeVar("Answer")
_FIRST_RETRY_S, _MOST_RETRY_S = 1.0, 60.0


class ReplicaState:
    """A replica. It samples only while its known version is the served version."""

    def __init__(self, name: str, replica: Replica) -> None:
        self.name = name
        self.replica = replica
        self.policy: PolicyVersion | None = None
        self.failure: AssayError | None = NotReady("it has not been checked yet")
        self.num_in_flight = 0
        self.num_drawn = 0
        self.failures: dict[str, int] = {}
        #: Held while it is given weights.
        self.changing = asyncio.Lock()
        self.watcher: asyncio.Task[None] | None = None
        #: It did not answer its last check.
        self.is_lost = False
        self._catching_up: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Future[object]] = set()
        self._refusal: AssayError | None = None
        self._num_given = 0
        self._next_try_at = 0.0
        self._retry_s = _FIRST_RETRY_S

    def serves(self, policy: PolicyVersion | None) -> bool:
        return self.failure is None and policy is not None and self.policy == policy

    def status(self, policy: PolicyVersion | None) -> ReplicaStatus:
        """Return the status; `policy` is the router's served version."""
        error = self.failure or (None if self.serves(policy) else self._refusal)
        failure = None if error is None else to_failure(error, self.name)
        return ReplicaStatus(policy=self.policy, num_in_flight=self.num_in_flight, failure=failure)

    def fail(self, error: AssayError) -> None:
        """Send no requests to the replica until its next check."""
        if self.failure is None:
            self.count(error)
        self.failure = error

    def count(self, error: AssayError) -> None:
        kind = type(error).__name__
        self.failures[kind] = self.failures.get(kind, 0) + 1

    async def call(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Do `work` unless the replica is given up meanwhile.

        Raises:
            Unreachable: it was given up.
        """
        call: asyncio.Future[Answer] = asyncio.ensure_future(work())
        self._calls.add(call)  # type: ignore[arg-type]  # a future of any kind
        try:
            return await call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise Unreachable(f"{self.name} was given up: {self.failure}") from None
        finally:
            self._calls.discard(call)

    async def watch(
        self, newest: Callable[[], ResolvedUpdate | None], interval_s: float, timeout_s: float
    ) -> None:
        """Check the replica until cancelled. A load may take long and does not stop the checks."""
        while True:
            await self.check(timeout_s)
            is_idle = self._catching_up is None or self._catching_up.done()
            if is_idle and not self.is_lost and not self.changing.locked():
                self._catching_up = asyncio.create_task(self.catch_up(newest, timeout_s))
            await asyncio.sleep(interval_s)

    async def check(self, timeout_s: float) -> None:
        """Check if the replica lives; otherwise its requests in flight fail."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.replica.check()
        except (AssayError, TimeoutError) as error:
            silent = TimedOut(f"{self.name} does not answer")
            self.fail(error if isinstance(error, AssayError) else silent)
            self.is_lost = True
            for call in tuple(self._calls):
                call.cancel()
        else:
            self.is_lost = False

    async def give(self, update: ResolvedUpdate) -> Loaded:
        """Have it serve `update`. Whatever else comes of it, it is passed over until then."""
        async with self.changing:
            self._num_given += 1
            try:
                loaded = await self.call(lambda: self.replica.load(update))
            except WeightsRefused as error:
                self.count(error)
                self._refusal = error  # it serves what it did before
                self._wait_longer()
                raise
            except AssayError as error:
                self.fail(error)
                self._wait_longer()
                raise
            self.policy, self.failure, self._refusal = update.policy, None, None
            self._next_try_at, self._retry_s = 0.0, _FIRST_RETRY_S
            return loaded

    async def catch_up(
        self, newest_of: Callable[[], ResolvedUpdate | None], timeout_s: float
    ) -> None:
        """Check the replica's version, and give it the newest if it differs."""
        num_given = self._num_given
        try:
            async with asyncio.timeout(timeout_s):
                served = await self.replica.served()
        except TimeoutError:
            return self.fail(TimedOut(f"{self.name} does not say what it serves"))
        except AssayError as error:
            return self.fail(error)
        if self.changing.locked() or num_given != self._num_given:
            return  # it was given weights meanwhile: what it said is out of date
        self.policy, newest = served, newest_of()
        if newest is None or self.policy == newest.policy:
            self.failure = None
        elif self.policy is not None and self.policy.version >= newest.policy.version:
            self.fail(Conflict(f"it serves version {self.policy.version} of somebody else"))
        elif asyncio.get_running_loop().time() >= self._next_try_at:
            with suppress(AssayError):  # kept in `failure`, or counted; tried again later
                await self.give(newest)

    def _wait_longer(self) -> None:
        self._next_try_at = asyncio.get_running_loop().time() + self._retry_s
        self._retry_s = min(2 * self._retry_s, _MOST_RETRY_S)

    async def retire(self, timeout_s: float) -> None:
        """Let its requests in flight finish, and close it."""
        for task in (self.watcher, self._catching_up):
            if task is not None:
                task.cancel()
        if self._calls and timeout_s > 0:
            await asyncio.wait(self._calls, timeout=timeout_s)
        for call in tuple(self._calls):
            call.cancel()
        await self.replica.close()
