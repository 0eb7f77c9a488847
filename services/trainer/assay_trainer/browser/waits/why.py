"""All waits of a run, live or finished."""

from collections.abc import Callable

from assay_shared.settings.environment import ServiceSettings
from assay_trainer.browser.opening import OpenedRun
from assay_trainer.browser.waits.live import MeshState, look, of_mesh
from assay_trainer.browser.waits.recorded import of_status, of_times, stalls
from assay_trainer.browser.waits.wait import RunWait

#: Stages whose groups go through the queue.
_PLAYED = ("grpo", "signal", "evaluate")


def why(
    opened: OpenedRun,
    settings: ServiceSettings,
    now: float,
    looked: Callable[[ServiceSettings], MeshState] = look,
) -> list[RunWait]:
    """Return the waits of a run: by its state, by services and queue while it runs, by its times.

    Args:
        now: seconds since the epoch.
        looked: asks services and queue; only for a run that is being trained.
    """
    summary, status, seen = opened.summary(), opened.status(), opened.events
    found = list(of_status(status, seen, str(opened.folder.path)))
    if status.state == "running" and status.stage.startswith(_PLAYED):
        since = seen.last_step_at or (seen.open_stage[1] if seen.open_stage else None)
        found += of_mesh(looked(settings), stalls(seen, now), since)
    return [*found, *of_times(summary.parts)]
