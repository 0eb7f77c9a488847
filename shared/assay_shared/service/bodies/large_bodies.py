"""Reads large bodies in another process.

In a thread, a call that parses megabytes would still hold up the event loop.
"""

import asyncio
import pickle
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from pydantic import BaseModel

from assay_shared.errors import InternalFault, Overloaded
from assay_shared.service.bodies.body import BodyProblem, TooManyValues, UnreadableBody
from assay_shared.service.bodies.parts import Joiner

_READ_TIMEOUT_S = 60.0
_MAX_WAITING = 64
#: Bytes per write; the rest of a larger write would be copied again and again.
_PIECE_BYTES = 2**18
_BUFFER_BYTES = 2**20


class LargeBodies:
    """Reader of large bodies in turn, in a process started with the first body."""

    def __init__(self, *, takes_half_characters: bool = True) -> None:
        """Set up; with `takes_half_characters`, texts may have lone surrogates."""
        self.takes_half_characters = takes_half_characters
        self._turn = asyncio.Lock()
        self._num_waiting = 0
        self._worker: asyncio.subprocess.Process | None = None

    async def close(self) -> None:
        """End the process."""
        await self._kill()

    async def read(
        self, model: type[BaseModel], chunks: Sequence[bytes]
    ) -> BaseModel | BodyProblem:
        """Return a body as `model`, or its problem.

        Raises:
            UnreadableBody: the body is not text, is nested hundreds of levels deep, or takes too
                much memory.
            TooManyValues: the body has more values than any route accepts.
            Overloaded: too many bodies wait already.
            InternalFault: the process failed, or took too long.
        """
        if self._num_waiting >= _MAX_WAITING:
            raise Overloaded("too many large bodies wait to be read", retry_after_s=1.0)
        self._num_waiting += 1
        try:
            async with self._turn, asyncio.timeout(_READ_TIMEOUT_S):
                return await self._read(model, chunks)
        except (TimeoutError, OSError, EOFError) as error:
            raise InternalFault("a large body could not be read") from error
        finally:
            self._num_waiting -= 1

    async def _read(
        self, model: type[BaseModel], chunks: Sequence[bytes]
    ) -> BaseModel | BodyProblem:
        worker = await self._start()
        try:
            await self._write(worker, model, chunks)
            return await self._take(worker)
        except UnreadableBody:
            raise
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            await self._kill()
            if worker.returncode == -signal.SIGABRT:  # Rust aborts when out of memory
                raise UnreadableBody from error
            raise
        except BaseException:
            await self._kill()  # otherwise the next request would read this request's answer
            raise

    async def _start(self) -> asyncio.subprocess.Process:
        if self._worker is None or self._worker.returncode is not None:
            self._worker = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "assay_shared.service.bodies.body_worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the service
                limit=_BUFFER_BYTES,
            )
        return self._worker

    async def _kill(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            with suppress(ProcessLookupError):
                worker.kill()
            await worker.communicate()  # drops the rest of its output, at most a pipe's content

    async def _write(
        self,
        worker: asyncio.subprocess.Process,
        model: type[BaseModel],
        chunks: Sequence[bytes],
    ) -> None:
        assert worker.stdin is not None
        length = sum(map(len, chunks))
        head = f"{model.__module__} {model.__name__} {length} {self.takes_half_characters:d}\n"
        worker.stdin.write(head.encode())
        for chunk in chunks:
            for start in range(0, len(chunk), _PIECE_BYTES):
                worker.stdin.write(chunk[start : start + _PIECE_BYTES])
                await worker.stdin.drain()

    async def _take(self, worker: asyncio.subprocess.Process) -> BaseModel | BodyProblem:
        assert worker.stdout is not None
        joiner, answer = Joiner(), object()
        first = True
        while size := int.from_bytes(await worker.stdout.readexactly(8)):
            frame = pickle.loads(await worker.stdout.readexactly(size))
            if first:
                answer, first = frame, False
            else:
                joiner.add(frame)
            await asyncio.sleep(0)
        if answer == "too many":
            raise TooManyValues
        if answer == "unreadable":
            raise UnreadableBody
        found = joiner.value() if answer == "model" else answer
        assert isinstance(found, BaseModel | BodyProblem)
        return found
