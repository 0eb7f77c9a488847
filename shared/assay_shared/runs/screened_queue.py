"""A Celery app whose workers survive malformed messages.

Celery and kombu parse messages from Redis in the worker's main loop. A message of an unexpected
form ends the worker, and then the next worker. This app checks each message first, and moves
everything but calls of the expected task to the dead letters.
"""

import base64
import json
from collections.abc import Callable
from queue import Empty
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP
from kombu.connection import Connection
from kombu.transport import redis as kombu_redis
from redis.exceptions import RedisError

from assay_shared.runs.queue import make_celery

#: Arguments: the queue, the reason as a word, the reason for people, and the message.
Bury = Callable[[str, str, str, bytes], None]


class Malformed(ValueError):
    """A message other than a call of the expected task."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def make_screened_celery(redis_url: str, queue: str, task: str, bury: Bury) -> Celery:
    """Return an app with workers that take only calls of `task` with one object from `queue`."""
    return make_celery(redis_url, amqp=_screened_amqp(queue, task, bury))


def check_call(message: object, task: str) -> None:
    """Check a message of the queue.

    Raises:
        Malformed: `message` is not Celery's form of a call of `task` with a JSON object.
    """
    if not isinstance(message, dict):
        raise Malformed("not_an_envelope", "the message is not a JSON object")
    properties, headers = message.get("properties"), message.get("headers")
    if not isinstance(properties, dict) or not isinstance(headers, dict):
        raise Malformed("not_an_envelope", "properties and headers must be objects")
    where = properties.get("delivery_info")
    if not isinstance(properties.get("delivery_tag"), str) or not isinstance(where, dict):
        raise Malformed("not_an_envelope", "delivery_tag or delivery_info is missing")
    if headers.get("task") != task:
        raise Malformed("unknown_task", f"headers.task is {headers.get('task')!r:.200}")
    if not isinstance(headers.get("id"), str):
        raise Malformed("not_an_envelope", "headers.id is not a text")
    _check_body(message.get("body"), properties.get("body_encoding"))


def _check_body(body: object, encoding: object) -> None:
    if not isinstance(body, str):
        raise Malformed("wrong_arguments", "the body is not a text")
    try:
        text = base64.b64decode(body, validate=True) if encoding == "base64" else body.encode()
        call = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed("wrong_arguments", f"the body cannot be read: {error}") from None
    match call:
        case [[dict()], dict(), dict()]:
            return
    raise Malformed("wrong_arguments", "the body is not [[OBJECT], {}, {}]")


class _Channel(kombu_redis.Channel):
    """Channel that buries an item of the list unless it is JSON and a call of the task."""

    queue: str
    bury: Bury

    def _brpop_read(self, **options: Any) -> Any:
        """Read an item as kombu does, but bury an unusable item; kombu would lose it."""
        taken: list[bytes] = []
        client = self.client
        parse = client.parse_response

        def parse_and_keep(*arguments: Any, **named: Any) -> Any:
            found = parse(*arguments, **named)
            taken.extend(found[1:] if isinstance(found, list | tuple) else ())
            return found

        client.parse_response = parse_and_keep
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except Malformed as error:
            reason, detail = error.reason, str(error)
        except (Empty, RedisError, OSError, *self.connection_errors):
            raise
        except Exception as error:  # noqa: BLE001  # kombu's JSON reader: any of a dozen
            reason, detail = "not_json", f"{type(error).__name__}: {error}"
        finally:
            del client.parse_response
        self.bury(self.queue, reason, detail, b"".join(taken))
        return True


class _Transport(kombu_redis.Transport):
    """Transport that passes only calls of the task to Celery."""

    queue: str
    task: str

    def _deliver(self, message: Any, queue: str) -> None:
        """Pass a message to Celery.

        Raises:
            Malformed: it is not a call of the task, or Celery refuses it.
        """
        if queue != self.queue:
            super()._deliver(message, queue)  # type: ignore[no-untyped-call]
            return
        check_call(message, self.task)
        try:
            super()._deliver(message, queue)  # type: ignore[no-untyped-call]
        except (RedisError, OSError, *self.connection_errors, *self.channel_errors):
            raise
        except Exception as error:
            # Celery can raise anything on unexpected headers.
            self._forget(message["properties"]["delivery_tag"])
            raise Malformed("refused", f"{type(error).__name__}: {error}") from error

    def _forget(self, tag: str) -> None:
        """Acknowledge a message already taken by Celery; otherwise Redis delivers it again."""
        for channel in self.channels:
            try:
                channel.qos.get(tag)
            except KeyError:
                continue
            channel.qos.ack(tag)


def _screened_amqp(queue: str, task: str, bury: Bury) -> type[AMQP]:
    """Return an AMQP class for Celery; its connections check messages for `task`."""
    known = {"queue": queue, "task": task, "bury": staticmethod(bury)}
    channel = type("Channel", (_Channel,), known)
    transport = type("Transport", (_Transport,), known | {"Channel": channel})

    class ScreenedConnection(Connection):
        def get_transport_cls(self) -> type[_Transport]:
            return transport

    class ScreenedAMQP(AMQP):  # type: ignore[misc]  # Celery has no types
        Connection = ScreenedConnection

    return ScreenedAMQP
