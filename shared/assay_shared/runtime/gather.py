"""Runs coroutines concurrently, and raises the first error alone."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def gather(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Return all results, in order. The first error cancels the other coroutines and is raised.

    It is raised without an exception group.
    """
    waiting = list(work)
    if len(waiting) == 1:  # a single coroutine needs no task
        return [await waiting[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in waiting]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
