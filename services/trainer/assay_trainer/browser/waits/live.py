"""Waits of a run in training, by its services and its queue."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay_shared.doctor.findings import CheckResult, CheckStatus, ServiceLimits
from assay_shared.doctor.queue import QueueDepth, examine_queue, read_depth
from assay_shared.doctor.services import examine_services, visit_services
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.browser.waits.wait import RunWait

#: What a group needs, by the first word of the doctor's check.
_NEEDED_BY = {
    "inference": ("the workers", "inference"),
    "reward": ("the workers", "reward"),
    "sandbox": ("reward", "the sandbox"),
    "judge": ("reward", "the judge"),
    "judges": ("the judge", "its providers"),
    "queue": ("the trainer", "Redis"),
    "workers": ("the queue", "workers"),
}
_LIMITS = ServiceLimits(timeout_s=3.0)


@dataclass(frozen=True)
class MeshState:
    """The doctor's checks of services and queue, and the groups in the queue."""

    checks: Sequence[CheckResult]
    #: None if Redis does not answer.
    depth: QueueDepth | None


def look(settings: ServiceSettings) -> MeshState:
    """Return the state of services and queue; takes a few seconds at most."""

    async def ask() -> tuple[list[CheckResult], list[CheckResult], QueueDepth | None]:
        visits, queue, depth = await asyncio.gather(
            visit_services(settings, _LIMITS),
            asyncio.to_thread(examine_queue, settings, _LIMITS),
            asyncio.to_thread(read_depth, settings, _LIMITS.timeout_s),
        )
        return examine_services(visits, _LIMITS), queue, depth

    services, queue, depth = asyncio.run(ask())
    return MeshState([*services, *queue], depth)


def of_mesh(state: MeshState, stalls: bool, since: float | None) -> Iterator[RunWait]:
    """Yield the waits among trainer, queue, workers and services.

    Args:
        stalls: whether the present step takes much longer than usual.
        since: when the last step ended, in seconds since the epoch.
    """
    faults = list(_of_checks(state.checks, since if stalls else None))
    yield from faults
    if state.depth is not None and not any(one.awaited == "workers" for one in faults):
        yield _of_queue(state.depth, since)
    if stalls and not faults:
        yield RunWait(
            "the trainer",
            "itself",
            "The step takes much longer than usual, and all services answer",
            "read run.log in the run's folder, and raise grpo.group_timeout_s if single groups "
            "take that long",
        )


def _of_checks(checks: Sequence[CheckResult], since: float | None) -> Iterator[RunWait]:
    for one in checks:
        pair = _NEEDED_BY.get(one.check.partition(" ")[0])
        is_fault = one.status is CheckStatus.FAIL or one.check in ("judges", "inference ready")
        if pair is None or one.status is CheckStatus.OK or not is_fault:
            continue
        waiter, awaited = pair
        verb = "wait" if waiter.endswith("s") else "waits"
        message = f"{waiter[0].upper()}{waiter[1:]} {verb} for {awaited}: {one.found.rstrip('.')}"
        yield RunWait(waiter, awaited, message, one.advice, since)


def _of_queue(depth: QueueDepth, since: float | None) -> RunWait:
    if depth.waiting and not depth.taken:
        return RunWait(
            "the queue",
            "workers",
            f"{depth.waiting} groups wait for workers, and no worker has taken any",
            "start workers (assay worker) with the same ASSAY_REDIS_URL",
            since,
        )
    if depth.waiting:
        return RunWait(
            "the queue",
            "workers",
            f"{depth.waiting} groups wait for workers, who play {depth.taken}",
            "more workers or a greater --concurrency help if inference has room",
        )
    if depth.taken:
        return RunWait(
            "the trainer",
            "the workers",
            f"The trainer waits for the workers: they play {depth.taken} groups, and none waits",
        )
    return RunWait(
        "the workers",
        "the trainer",
        "The workers wait for the trainer: no group is in flight, so it updates, publishes, "
        "writes a checkpoint or measures",
    )
