"""All sessions of a server: interpreters with names that last from cell to cell."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from assay_sandbox.execution.isolation import Slots
from assay_sandbox.execution.program import Program
from assay_sandbox.execution.run import RunSpec
from assay_sandbox.sessions.live_session import LiveSession
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import Conflict, InvalidInput, NotFound, SandboxFault, Saturated
from assay_shared.types import CellResult, Session, SessionRequest

T = TypeVar("T")

_SWEEP_S = 1.0
#: CPU time beyond a cell's limit after which the slot ends the session. The cell's own clock should
#: end the cell first and keep the session; it rings once a second and may be early once.
_CELL_GRACE_S = 2.5


class Sessions:
    """All sessions of a server: bounded in number, and ended after a time without use."""

    def __init__(
        self,
        settings: SandboxSettings,
        slots: Slots,
        build: Callable[[SessionRequest], Awaitable[Program]],
    ) -> None:
        """Use `build` to turn a request into the interpreter's program."""
        self._settings = settings
        self._slots = slots
        self._build = build
        self._live: dict[str, LiveSession] = {}
        self._free_numbers = list(range(settings.sandbox_max_sessions))
        self._sweeper: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._live)

    async def create(self, request: SessionRequest, client: str) -> Session:
        """Start a session and return its description.

        Raises:
            Saturated: the limit of sessions is reached, in all or for this client.
            SandboxFault: no slot could be built.
        """
        own = sum(session.client == client for session in self._live.values())
        if not self._free_numbers or own >= self._settings.sandbox_max_sessions_per_client:
            raise Saturated(
                f"{len(self._live)} sessions live, {own} of them yours",
                hint="end one that is no longer needed",
                retry_after_s=1.0,
            )
        creating = self._start(self._create(request, client, self._free_numbers.pop()))
        try:
            session = await asyncio.shield(creating)
        except asyncio.CancelledError:
            # Finish building the slot, then end it: otherwise its number would stay in use.
            self._start(self._drop(creating))
            raise
        return self._describe(session)

    async def _create(self, request: SessionRequest, client: str, number: int) -> LiveSession:
        try:
            program = await self._build(request)
            evidence = await self._slots.evidence_of(request.profile)
            session = LiveSession(client, request, program, number, evidence)
            slot = await self._slots.hold(request.profile, number)
            await session.begin(slot.socket, self._plan(program))
        except BaseException:
            self._free_numbers.append(number)
            raise
        self._live[session.id] = session
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep())
        return session

    async def _drop(self, creating: asyncio.Task[LiveSession]) -> None:
        """End a session when it is ready: its client has gone."""
        with suppress(SandboxFault, InvalidInput):
            await self._end(await creating)

    def _start(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Start work as a task, so that it is finished even if the client goes away."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _plan(self, program: Program) -> RunSpec:
        life_s = self._settings.sandbox_session_life_s
        plan = program.plan()
        limits = {
            "wall_time_s": life_s,
            "cpu_time_s": life_s,
            "cell_cpu_time_s": program.limits.cpu_time_s + _CELL_GRACE_S,
        }
        header = plan.header | {"limits": dict(plan.header["limits"]) | limits, "has_channel": True}  # type: ignore[call-overload]
        return RunSpec(
            header=header,
            body=plan.body | {"part": "session"},
            stdin=b"",
            wall_time_s=life_s,
            output_bytes=plan.output_bytes,
        )

    def _describe(self, session: LiveSession) -> Session:
        now = time.monotonic()
        left_s = session.started + self._settings.sandbox_session_life_s - now
        idle_s = session.used + self._settings.sandbox_session_idle_s - now
        return Session(
            id=session.id,
            profile=session.request.profile,
            limits=session.request.limits,
            ends_in_s=max(0.0, min(left_s, idle_s)),
            isolation=self._slots.isolation,
        )

    def describe(self, identifier: str, client: str) -> Session:
        """Return a session with the time until it ends.

        Raises:
            NotFound: there is no such session.
        """
        return self._describe(self._find(identifier, client))

    def _find(self, identifier: str, client: str) -> LiveSession:
        session = self._live.get(identifier)
        if session is None or session.client != client:
            raise NotFound("there is no such session, or it has ended")
        session.used = time.monotonic()
        return session

    async def execute(self, identifier: str, client: str, code: str) -> CellResult:
        """Run a cell and return its result.

        Raises:
            NotFound: there is no such session.
            Conflict: a cell of the session is running already.
            SandboxFault: the session was lost by our fault.
        """
        session = self._find(identifier, client)
        if session.is_busy:
            raise Conflict("a cell of this session is running")
        try:
            async with self._slots.permits.enter(client) as place:
                result = await session.execute(code, place)
        except (SandboxFault, asyncio.CancelledError):
            await self._end(session)
            raise
        session.used = time.monotonic()
        if result.ended:
            await self._end(session)
        return result

    async def put_file(self, identifier: str, client: str, name: str, content: bytes) -> None:
        """Write a file into a session's folder.

        Raises:
            NotFound: there is no such session.
            InvalidInput: the file cannot be written.
        """
        await self._find(identifier, client).put(name, content)

    async def get_file(self, identifier: str, client: str, name: str) -> bytes:
        """Return the content of a session's file.

        Raises:
            NotFound: there is no such session or file.
        """
        return await self._find(identifier, client).get(name)

    async def end(self, identifier: str, client: str) -> None:
        """End a session.

        Raises:
            NotFound: there is no such session.
        """
        await self._end(self._find(identifier, client))

    async def _end(self, session: LiveSession) -> None:
        if self._live.pop(session.id, None) is not None:
            await asyncio.shield(self._start(self._give_up(session)))

    async def _give_up(self, session: LiveSession) -> None:
        await session.end()
        await self._slots.let_go(session.request.profile, session.slot_number)
        self._free_numbers.append(session.slot_number)

    async def _sweep(self) -> None:
        """End sessions after too long without use, or after their longest life."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            for session in list(self._live.values()):
                if self._describe(session).ends_in_s <= 0 and not session.is_busy:
                    await self._end(session)

    async def close(self) -> None:
        """End all sessions."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for session in list(self._live.values()):
            await self._end(session)
