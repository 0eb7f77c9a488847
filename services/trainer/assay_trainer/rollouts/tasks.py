"""The rollout worker as a Celery app: validates, plays, stores."""

import json
import os
import socket
from typing import Any

from celery import Celery
from celery.exceptions import Reject
from celery.signals import worker_shutting_down
from pydantic import ValidationError

from assay_shared.clients import InferenceClient, RetryBudget, RewardClient
from assay_shared.runs.queue import ROLLOUT_QUEUE, RUN_GROUP_TASK, make_celery
from assay_shared.runs.screened_queue import make_screened_celery
from assay_shared.runtime.processes import raise_descriptor_limit
from assay_shared.settings.environment import ServiceSettings
from assay_shared.settings.validation import message_of
from assay_shared.telemetry import propagation
from assay_shared.telemetry.tracing import end_tracing, serving, set_up_tracing
from assay_shared.types import GroupRequest
from assay_trainer.rollouts.shutdown import Requeued, WorkLoop
from assay_trainer.rollouts.store import GroupStore
from assay_trainer.rollouts.worker import run_once

#: Long enough for a neighbour to be restarted; what is left then is a typed failure.
_RETRY = RetryBudget(attempts=20, total_s=45.0)
#: The samples of episodes are asked for one by one.
_MAX_CONNECTIONS = 1024


class _Inference(InferenceClient):
    max_connections = _MAX_CONNECTIONS


class _Reward(RewardClient):
    max_connections = _MAX_CONNECTIONS


def make_worker(settings: ServiceSettings, work: WorkLoop) -> Celery:
    """Return the Celery app of a rollout worker. Its threads wait for groups played on `work`."""
    store = GroupStore(settings.redis_url)
    celery = make_screened_celery(settings.redis_url, ROLLOUT_QUEUE, RUN_GROUP_TASK, store.bury)
    worker = f"{socket.gethostname()}:{os.getpid()}"

    generator = work.enter(_Inference.from_settings(settings, retry=_RETRY))
    rewarder = work.enter(_Reward.from_settings(settings, retry=_RETRY))

    @celery.task(name=RUN_GROUP_TASK, bind=True)  # type: ignore[untyped-decorator]  # Celery has no types
    def play(task: Any, request: dict[str, Any]) -> None:
        try:
            group = GroupRequest.model_validate(request)
        except ValidationError as error:
            detail = message_of(error.errors(include_url=False)[0])
            where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
            content = json.dumps(request).encode()
            store.bury(ROLLOUT_QUEUE, "invalid_request", f"{where}: {detail}", content)
            return
        headers = task.request.headers or {}
        sent = {name: value for name, value in headers.items() if isinstance(value, str)}
        with (
            propagation.extract(sent.get(propagation.BAGGAGE_HEADER)),
            serving("rollout.run_once", sent),
        ):
            try:
                work.run(run_once(group, store, generator, rewarder, worker))
            except Requeued as error:
                raise Reject(error, requeue=True) from None

    # Celery itself keeps no reference to a receiver that is closed over.
    @worker_shutting_down.connect(weak=False)  # type: ignore[untyped-decorator]
    def begin_stop(**_: object) -> None:
        work.hand_back_in(settings.shutdown_grace_s)

    return celery


def run_worker(settings: ServiceSettings, concurrency: int) -> None:
    """Run groups until SIGTERM; requeue the groups unfinished after the grace period."""
    raise_descriptor_limit()
    set_up_tracing("worker", settings)
    options = [
        "--pool=threads",
        f"--hostname=assay-{os.getpid()}@%h",
        f"--concurrency={concurrency}",
        f"--queues={ROLLOUT_QUEUE}",
        "--without-gossip",
        "--without-mingle",
        f"--loglevel={settings.log_level}",
    ]
    try:
        with WorkLoop() as work:
            make_worker(settings, work).worker_main(["worker", *options])
    finally:
        end_tracing()


def answers(settings: ServiceSettings, timeout_s: float) -> bool:
    """Return True if this host's worker answers through the broker."""
    control = make_celery(settings.redis_url).control
    nodes = f"assay-*@{socket.gethostname()}"
    return bool(control.ping(timeout=timeout_s, limit=1, pattern=nodes, matcher="glob"))
