"""A run at the trainer service, followed from outside over whatever interrupts the service."""

import logging
from collections.abc import Callable

from assay_shared.clients import TrainerClient
from assay_shared.clients.trainer import RunRequest
from assay_shared.errors import Conflict, InternalFault, Unreachable
from assay_shared.runs.run_folder import Event

_log = logging.getLogger(__name__)

_MAX_INTERRUPTIONS = 20


async def follow(
    trainer: TrainerClient, request: RunRequest, show: Callable[[Event], None]
) -> None:
    """Start the run, or resume the run of its name, and show each event once until it ends.

    Waits for a lost trainer as long as the client's retry budget allows; a run ended with it is
    resumed.

    Raises:
        InternalFault: the run failed, was stopped, or was interrupted too often.
        Unreachable: the trainer stays away.
    """
    try:
        await trainer.start(request)
    except Conflict:
        await _go_on(trainer, request.name)
    num_shown = 0
    for _ in range(_MAX_INTERRUPTIONS):
        number = 0
        try:
            async for event in trainer.events(request.name):
                number += 1
                if number > num_shown:
                    show(event)
                    num_shown = number
        except Unreachable as error:
            _log.warning("%s: waiting for the trainer", error)
            await _go_on(trainer, request.name)
            continue
        status = (await trainer.run(request.name)).status
        if status.state == "finished":
            return
        raise InternalFault(f"the run {status.state}: {status.message}", hint="run it again")
    raise InternalFault(f"the run was interrupted {_MAX_INTERRUPTIONS} times")


async def _go_on(trainer: TrainerClient, name: str) -> None:
    """Resume an existing run, unless it is running."""
    state = (await trainer.run(name)).status.state
    if state in ("failed", "stopped"):
        await trainer.resume(name)
