"""Celery app on Redis, with JSON messages. A worker acknowledges a task when it is done."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from celery import Celery
    from celery.app.amqp import AMQP

ROLLOUT_QUEUE = "rollouts"
#: Redis key of tasks that workers have taken and not acknowledged; kombu keeps it.
UNACKED_KEY = "unacked"
RUN_GROUP_TASK = "rollouts.play"

#: A task not acknowledged in this time goes to another worker. The time must be longer than any
#: rollout; if a group is still played twice, its result is stored once.
VISIBILITY_TIMEOUT_S = 1800


def make_celery(redis_url: str, amqp: "type[AMQP] | None" = None) -> "Celery":
    """Return a Celery app on `redis_url` (redis://, rediss:// or unix://).

    Its workers and senders wait a bounded time for the broker and then raise. `amqp` makes the
    app's connections.
    """
    from celery import Celery  # here, so that this module can be imported without celery

    celery = Celery("assay", broker=_broker_url(redis_url), amqp=amqp)
    celery.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,  # results are stored once, by key, by the task itself
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # a worker outlives its broker
        broker_transport_options={
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "socket_timeout": 30,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
        task_publish_retry_policy={"max_retries": 5, "interval_start": 0.2, "interval_max": 2},
    )
    return celery


def _broker_url(redis_url: str) -> str:
    """Return the URL in Celery's spelling: its scheme for sockets is redis+socket."""
    if redis_url.startswith("unix://"):
        return "redis+socket://" + redis_url.removeprefix("unix://")
    return redis_url
