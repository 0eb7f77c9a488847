"""Running things side by side."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def gather(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """All results, in order. The first error ends the others and is raised by itself."""
    waiting = list(work)
    if len(waiting) == 1:  # needs no task of its own
        return [await waiting[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in waiting]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
