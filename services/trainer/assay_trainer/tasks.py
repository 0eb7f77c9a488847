"""The rollout worker as a Celery app: validates, plays, stores."""

import asyncio
import os
import socket
from typing import Any

from celery import Celery

from assay_shared import hops
from assay_shared.clients import InferenceClient, RetryBudget, RewardClient
from assay_shared.queue import PLAY_TASK, make_celery
from assay_shared.settings import ServiceSettings
from assay_shared.tracing import end_tracing, serving, set_up_tracing
from assay_shared.types import GroupRequest
from assay_trainer.play import take
from assay_trainer.store import GroupStore

#: Long enough for a neighbour to be restarted; what is left then is a typed failure.
_RETRY = RetryBudget(attempts=20, total_s=45.0)


def make_worker(settings: ServiceSettings) -> Celery:
    """A Celery app that plays groups."""
    celery = make_celery(settings.redis_url)
    store = GroupStore(settings.redis_url)
    worker = f"{socket.gethostname()}:{os.getpid()}"

    @celery.task(name=PLAY_TASK, bind=True)  # type: ignore[untyped-decorator]  # Celery has no types
    def play(task: Any, request: dict[str, Any]) -> None:
        headers = task.request.headers or {}
        sent = {name: value for name, value in headers.items() if isinstance(value, str)}
        with hops.incoming(sent.get(hops.BAGGAGE_HEADER)), serving("rollout.take", sent):
            asyncio.run(_play(GroupRequest.model_validate(request)))

    async def _play(request: GroupRequest) -> None:
        async with (
            InferenceClient.from_settings(settings, retry=_RETRY) as generator,
            RewardClient.from_settings(settings, retry=_RETRY) as rewarder,
        ):
            await take(request, store, generator, rewarder, worker)

    return celery


def run_worker(settings: ServiceSettings, concurrency: int) -> None:
    """Play groups until SIGTERM, which lets the groups in hand finish."""
    set_up_tracing("worker", settings)
    options = [
        "--pool=threads",
        f"--hostname=assay-{os.getpid()}@%h",
        f"--concurrency={concurrency}",
        "--queues=rollouts",
        "--without-gossip",
        "--without-mingle",
        f"--loglevel={settings.log_level}",
    ]
    try:
        make_worker(settings).worker_main(["worker", *options])
    finally:
        end_tracing()
