"""The units that are left to play of a task, by its stored samples."""

from collections.abc import Iterator, Mapping, Sequence

from assay_shared.types import Task
from assay_trainer.evaluate.playing.player import PlayUnit
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import SampleRecord

#: Samples of one request: fewer are lost by a kill than with a request for all.
_MOST_OF_UNIT = 32


def units_of(
    task: Task, place: int, stored: Mapping[int, SampleRecord], protocol: Protocol
) -> Iterator[PlayUnit]:
    """Yield the units without which samples of a task are missing; all can be played at once.

    A budget's samples follow each other: see `next_of_budget`.
    """
    size = protocol.samples_per_task
    step = size if protocol.kind is ProtocolKind.MAJORITY else min(size, _MOST_OF_UNIT)
    for first in range(0, size, step):
        num = min(step, size - first)
        known = [index for index in range(first, first + num) if index in stored]
        if len(known) < num:
            yield PlayUnit(task, place, first, num, protocol.max_tokens, known)


def next_of_budget(
    task: Task, place: int, stored: Sequence[SampleRecord], protocol: Protocol
) -> PlayUnit | None:
    """Return the next sample of a task under a budget; None if the budget is used.

    The last sample gets the tokens that are left.
    """
    assert protocol.budget_tokens is not None
    left = protocol.budget_tokens - sum(one.num_tokens or 0 for one in stored)
    if left <= 0 or len(stored) >= protocol.samples_per_task:
        return None
    return PlayUnit(task, place, len(stored), 1, min(protocol.max_tokens, left))
