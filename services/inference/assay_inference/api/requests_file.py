"""Answers to a file of requests, in the file's order."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable

from assay_shared.errors import AssayError, to_failure
from assay_shared.interfaces import Generator
from assay_shared.types import GenerateRequest


async def answer_all(
    generator: Generator, requests: Iterable[GenerateRequest], concurrency: int
) -> AsyncIterator[str]:
    """Yield a JSON line for each request, in order: its answer, or {"failure": ...}.

    At most `concurrency` requests are in flight.
    """
    waiting: deque[asyncio.Task[str]] = deque()
    try:
        for request in requests:
            waiting.append(asyncio.create_task(_answer(generator, request)))
            if len(waiting) >= concurrency:
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
    finally:
        for task in waiting:
            task.cancel()


async def _answer(generator: Generator, request: GenerateRequest) -> str:
    try:
        return (await generator.generate(request)).model_dump_json()
    except AssayError as error:
        failure = to_failure(error, "inference").model_dump(mode="json")
        return json.dumps({"failure": failure})
