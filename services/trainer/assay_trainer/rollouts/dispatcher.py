"""Sends groups to the workers and collects them, each key once.

The trainer is the authority: the queue carries requests, the store holds results, and the
dispatcher sends lost groups again (a killed worker, a restarted broker).
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from celery import Celery
from kombu.exceptions import OperationalError

from assay_shared.errors import TimedOut, Unreachable, to_failure
from assay_shared.runs.queue import ROLLOUT_QUEUE, RUN_GROUP_TASK
from assay_shared.telemetry import propagation, tracing
from assay_shared.telemetry.context import log_fields
from assay_shared.types import Group, GroupRequest, ScoredGroup
from assay_trainer.rollouts.store import GroupStore

_POLL_S = 0.02
#: How often leases and the broker's identity are checked.
_CHECK_S = 1.0
#: A worker's control thread answers in this time, however many groups it plays.
_ANSWER_S = 5.0
#: The longest wait of a group in the queue.
_MAX_QUEUED_S = 12 * 3600.0


@dataclass
class PendingGroup:
    """A group in flight between the trainer and a worker."""

    request: GroupRequest
    attempts: int = 1
    was_leased: bool = False
    sent_at: float = field(default_factory=time.monotonic)
    #: When it was last known to be sent or to wait behind other groups.
    queued_at: float = field(default_factory=time.monotonic)
    #: From here until it is back: the trace that all its work belongs to.
    span: tracing.TraceSpan = field(default_factory=tracing.TraceSpan)


class RolloutDispatcher:
    """The groups in flight of a trainer."""

    def __init__(
        self, celery: Celery, store: GroupStore, *, timeout_s: float, attempts: int
    ) -> None:
        """Start with no group in flight.

        Args:
            timeout_s: time in which a group that nobody plays is sent again. Time in the queue
                behind other groups does not count, up to half a day in total.
            attempts: how often a group is sent before it has failed.
        """
        self._celery = celery
        self._store = store
        self._timeout_s = timeout_s
        self._attempts = attempts
        self._sent: dict[str, PendingGroup] = {}
        self._server = store.server()
        self._next_check = 0.0
        self.num_resent = 0

    @property
    def num_in_flight(self) -> int:
        return len(self._sent)

    def send(self, request: GroupRequest) -> None:
        """Request a group. If it is stored already, the next `collect` finds it."""
        with log_fields(run=request.run, group=request.key):
            span = tracing.begin("rollout", task=request.task.id, rubric=request.task.rubric)
        sent = self._sent[request.key] = PendingGroup(request, span=span)
        self._publish(sent)

    def collect(self, wait_s: float) -> list[ScoredGroup]:
        """Return finished groups; wait up to `wait_s` for the first.

        A group out of attempts comes back with a failure in place of rewards.

        Raises:
            Unreachable: Redis is gone for longer than its retries last.
        """
        deadline = time.monotonic() + wait_s
        while True:
            done = [*self._stored(), *self._given_up()]
            if done or time.monotonic() >= deadline:
                return done
            time.sleep(_POLL_S)

    def _stored(self) -> Iterator[ScoredGroup]:
        for key, scored in self._store.fetch(list(self._sent)).items():
            self._sent.pop(key).span.end()
            self._store.consumed(key)
            yield scored

    def _given_up(self) -> Iterator[ScoredGroup]:
        """Send lost groups again; yield the groups out of attempts as failed."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _CHECK_S
        for sent in self._lost(now):
            if sent.attempts >= self._attempts:
                del self._sent[sent.request.key]
                sent.span.fail("never played")
                sent.span.end()
                yield _failed(sent)
            else:
                self._send_again(sent)

    def _lost(self, now: float) -> list[PendingGroup]:
        leased = self._store.leased(list(self._sent))
        if self._broker_was_restarted():
            lost = list(self._sent.values())
        else:
            lost = [sent for sent in self._sent.values() if self._is_overdue(sent, now, leased)]
            lost = self._without_queued(lost, now, leased)
        # Stored since the last look: not lost at all.
        stored = self._store.fetch([sent.request.key for sent in lost])
        for sent in self._sent.values():
            sent.was_leased = sent.request.key in leased
        return [sent for sent in lost if sent.request.key not in stored]

    def _broker_was_restarted(self) -> bool:
        """Return True after a restart: everything in flight counts as lost."""
        server, self._server = self._server, self._store.server()
        return server != self._server

    def _is_overdue(self, sent: PendingGroup, now: float, leased: set[str]) -> bool:
        if sent.request.key in leased:
            return False  # a living worker is at it, and has its own time limits
        return sent.was_leased or now - sent.queued_at > self._timeout_s

    def _without_queued(
        self, lost: list[PendingGroup], now: float, leased: set[str]
    ) -> list[PendingGroup]:
        """Return the groups that do more than wait behind others in the queue of a worker."""
        found = [one for one in lost if one.was_leased or now - one.sent_at > _MAX_QUEUED_S]
        if len(found) == len(lost) or not self._store.num_queued() or not self._worker_answers():
            return lost
        for one in self._sent.values():
            if one.request.key not in leased:
                one.queued_at = now
        return found

    def _worker_answers(self) -> bool:
        try:
            return bool(self._celery.control.ping(timeout=_ANSWER_S, limit=1))
        except OperationalError as error:
            raise Unreachable(f"no broker: {error}", service="redis") from error

    def _send_again(self, sent: PendingGroup) -> None:
        sent.attempts += 1
        sent.was_leased = False
        sent.sent_at = sent.queued_at = time.monotonic()
        self.num_resent += 1
        sent.span.note(attempts=sent.attempts)
        self._publish(sent)

    def _publish(self, sent: PendingGroup) -> None:
        request = sent.request
        try:
            with log_fields(run=request.run, group=request.key), sent.span.current():
                self._celery.send_task(
                    RUN_GROUP_TASK,
                    args=[request.model_dump(mode="json")],
                    queue=ROLLOUT_QUEUE,
                    headers=propagation.inject(),
                )
        except OperationalError as error:
            raise Unreachable(f"no broker: {error}", service="redis") from error


def _failed(sent: PendingGroup) -> ScoredGroup:
    error = TimedOut(
        f"sent {sent.attempts} times and never played; is a worker running?",
        attempts=sent.attempts,
    )
    group = Group(key=sent.request.key, task=sent.request.task, rollouts=())
    return ScoredGroup(group=group, failure=to_failure(error, "worker"), worker="none")
