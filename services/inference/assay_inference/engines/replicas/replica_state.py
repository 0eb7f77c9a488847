"""The router's view of a replica: version, requests in flight, and health."""

import asyncio
from collections.abc import Awaitable, Callable, Set
from contextlib import suppress
from typing import TypeVar

from assay_inference.engines.engine import Loaded, ResolvedUpdate
from assay_inference.engines.replicas.replica import Replica
from assay_shared.errors import (
    AssayError,
    Conflict,
    InvalidInput,
    NotReady,
    TimedOut,
    Unreachable,
    WeightsRefused,
    to_failure,
)
from assay_shared.types import DirectWeights, PolicyVersion, ReplicaStatus

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
        #: It did not answer its last check, or has not been checked yet.
        self.is_lost = True
        #: Its first check has ended, or it was retired.
        self.checked = asyncio.Event()
        self._catching_up: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Future[object]] = set()
        self._refusal: AssayError | None = None
        #: Times that it was given weights.
        self.num_given = 0
        self._last_given: PolicyVersion | None = None
        self._next_try_at = 0.0
        self._retry_s = _FIRST_RETRY_S

    def serves(self, policies: Set[PolicyVersion | None]) -> bool:
        return self.failure is None and self.policy is not None and self.policy in policies

    def status(self, policy: PolicyVersion | None) -> ReplicaStatus:
        """Return the status; `policy` is the router's served version."""
        error = self.failure or (None if self.serves({policy}) else self._refusal)
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
        self.checked.set()

    async def give(self, update: ResolvedUpdate) -> Loaded:
        """Have it serve `update`. Whatever else comes of it, it is passed over until then."""
        async with self.changing:
            self.num_given += 1
            self._last_given = update.policy
            try:
                loaded = await self.call(lambda: self.replica.load(update))
            except AssayError as error:
                is_kept = isinstance(error, WeightsRefused | InvalidInput)
                if isinstance(update.source, DirectWeights):
                    is_kept = await self._has_kept_its_version()
                if is_kept:
                    self.count(error)
                    self._refusal = error  # it serves what it did before
                else:
                    self.fail(error)
                self._wait_longer()
                raise
            self.policy, self.failure, self._refusal = update.policy, None, None
            self._next_try_at, self._retry_s = 0.0, _FIRST_RETRY_S
            return loaded

    async def _has_kept_its_version(self) -> bool:
        """Return True if it serves what it did before; what came directly may be lost."""
        before = self.policy
        try:
            self.policy = await self.replica.served()
        except AssayError:
            self.policy = None
        return self.policy is not None and self.policy == before

    async def catch_up(
        self, newest_of: Callable[[], ResolvedUpdate | None], timeout_s: float
    ) -> None:
        """Check the replica's version, and give it the newest if it differs."""
        num_given = self.num_given
        try:
            async with asyncio.timeout(timeout_s):
                served = await self.replica.served()
        except TimeoutError:
            return self.fail(TimedOut(f"{self.name} does not say what it serves"))
        except AssayError as error:
            return self.fail(error)
        if self.changing.locked() or num_given != self.num_given:
            return  # it was given weights meanwhile: what it said is out of date
        self.policy, newest = served, newest_of()
        if newest is None or self.policy == newest.policy:
            self.failure = None
        elif isinstance(newest.source, DirectWeights):  # its trainer no longer waits
            self.fail(NotReady(f"version {newest.policy.version} came directly, and is lost here"))
        elif self._is_of_somebody_else(newest.policy):
            self.fail(Conflict(f"it serves {shown(self.policy)} of somebody else"))
        elif asyncio.get_running_loop().time() >= self._next_try_at:
            with suppress(AssayError):  # kept in `failure`, or counted; tried again later
                await self.give(newest)

    def _is_of_somebody_else(self, newest: PolicyVersion) -> bool:
        """Return True if a later version is served that did not come from here."""
        served = self.policy
        if served is None or served == self._last_given:
            return False
        return served.version >= newest.version

    def _wait_longer(self) -> None:
        self._next_try_at = asyncio.get_running_loop().time() + self._retry_s
        self._retry_s = min(2 * self._retry_s, _MOST_RETRY_S)

    async def retire(self, timeout_s: float) -> None:
        """Let its requests in flight finish, and close it."""
        self.checked.set()
        for task in (self.watcher, self._catching_up):
            if task is not None:
                task.cancel()
        if self._calls and timeout_s > 0:
            await asyncio.wait(self._calls, timeout=timeout_s)
        for call in tuple(self._calls):
            call.cancel()
        await self.replica.close()


def shown(policy: PolicyVersion | None) -> str:
    """Return a version for a message."""
    return "nothing" if policy is None else f"version {policy.version}"
