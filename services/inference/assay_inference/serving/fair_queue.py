"""The order of waiting requests: priority classes by rank, fair shares between callers in a class.

Within a class: start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996, section 2) with equal
weights, at two levels: clients, and each client's runs. Each caller has a virtual time: the tokens
granted to it. The caller with the lowest virtual time is next. A caller gains no credit by being
idle.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from assay_shared.types import Priority

#: Levels of taking turns: first between clients, then between the runs of a client.
BY_CLIENT_AND_RUN: "tuple[Callable[[Ticket], str], ...]" = (
    lambda ticket: ticket.client,
    lambda ticket: ticket.run,
)


@dataclass(eq=False)
class Ticket:
    """A waiting request, with its number of sequences and its maximum number of tokens.

    Clients take turns first, then the runs of a client: a client gets no more by naming many runs.

    `num_cached`: tokens of all its sequences in the engine's cache, each with the prompt.
    """

    priority: Priority
    client: str
    run: str
    num_sequences: int
    num_tokens: int
    turn: asyncio.Future[None]
    num_cached: int = 0


MayStart = Callable[[Ticket], bool]


def always(_: Ticket) -> bool:
    """Return True: any ticket may start."""
    return True


class WaitingLine:
    """The requests of a client's run, first come first served."""

    def __init__(self) -> None:
        self._tickets: deque[Ticket] = deque()
        self.num_sequences = 0

    def __bool__(self) -> bool:
        return bool(self._tickets)

    def push(self, ticket: Ticket) -> None:
        self._tickets.append(ticket)
        self.num_sequences += ticket.num_sequences

    def head(self, may_start: MayStart = always) -> Ticket | None:
        """Return the oldest ticket, or None if it may not start."""
        return self._tickets[0] if self._tickets and may_start(self._tickets[0]) else None

    def pop(self, may_start: MayStart = always) -> Ticket:
        ticket = self._tickets.popleft()
        self.num_sequences -= ticket.num_sequences
        return ticket

    def remove(self, ticket: Ticket) -> None:
        if ticket in self._tickets:
            self._tickets.remove(ticket)
            self.num_sequences -= ticket.num_sequences

    def newest_first(self) -> Iterator[Ticket]:
        return iter(list(reversed(self._tickets)))

    def greed_over(self, newcomer: Ticket) -> int:
        """Return 0: a request does not give way to a later request of the same run."""
        return 0


@dataclass
class _Flow:
    """A caller's requests. `start` is the virtual time at the start of its next request."""

    start: float
    waiting: "WaitingLine | FairQueue"


class FairQueue:
    """A queue with fair turns between callers, measured in requested tokens.

    `by` has, for each level, the function from a ticket to its caller's name.
    """

    def __init__(self, by: Sequence[Callable[[Ticket], str]] = BY_CLIENT_AND_RUN) -> None:
        self._name, *self._by = by
        self._flows: dict[str, _Flow] = {}
        self._now = 0.0
        self.num_sequences = 0

    def __bool__(self) -> bool:
        return any(flow.waiting for flow in self._flows.values())

    def push(self, ticket: Ticket) -> None:
        name = self._name(ticket)
        if name not in self._flows:
            self._flows[name] = _Flow(self._now, FairQueue(self._by) if self._by else WaitingLine())
        flow = self._flows[name]
        if not flow.waiting:
            flow.start = max(flow.start, self._now)
        flow.waiting.push(ticket)
        self.num_sequences += ticket.num_sequences

    def head(self, may_start: MayStart = always) -> Ticket | None:
        """Return the next ticket that may start, or None."""
        flow = self._first(may_start)
        return None if flow is None else flow.waiting.head(may_start)

    def pop(self, may_start: MayStart = always) -> Ticket:
        """Remove and return the next ticket that may start; there must be one."""
        flow = self._first(may_start)
        assert flow is not None, "the caller has looked"
        ticket = flow.waiting.pop(may_start)
        self.num_sequences -= ticket.num_sequences
        self._now = flow.start
        flow.start += ticket.num_tokens
        self._forget_idle()
        return ticket

    def remove(self, ticket: Ticket) -> None:
        """Remove a ticket that has given up; ignore a ticket that is not queued."""
        flow = self._flows.get(self._name(ticket))
        if flow is not None:
            before = flow.waiting.num_sequences
            flow.waiting.remove(ticket)
            self.num_sequences -= before - flow.waiting.num_sequences

    def newest_first(self) -> Iterator[Ticket]:
        """Yield tickets in order of eviction.

        Each is the newest ticket of the caller with the most sequences left.
        """
        waiting = {name: flow.waiting for name, flow in self._flows.items() if flow.waiting}
        left = {name: queue.num_sequences for name, queue in waiting.items()}
        tickets = {name: queue.newest_first() for name, queue in waiting.items()}
        while left:
            greediest = max(left, key=left.__getitem__)
            ticket = next(tickets[greediest], None)
            if ticket is None:
                del left[greediest]
                continue
            left[greediest] -= ticket.num_sequences
            yield ticket

    def greed_over(self, newcomer: Ticket) -> int:
        """Return the number of sequences that may be evicted for the newcomer.

        It is the lead of the caller with the most waiting sequences over the newcomer's caller, the
        newcomer's sequences included. If both are the same caller, its runs are compared.
        """
        left = {n: flow.waiting.num_sequences for n, flow in self._flows.items() if flow.waiting}
        if not left:
            return 0
        most, own = max(left, key=left.__getitem__), self._name(newcomer)
        if most == own:
            return self._flows[own].waiting.greed_over(newcomer)
        return left[most] - left.get(own, 0) - newcomer.num_sequences

    def _first(self, may_start: MayStart) -> _Flow | None:
        able = (flow for flow in self._flows.values() if flow.waiting.head(may_start) is not None)
        return min(able, key=lambda flow: flow.start, default=None)

    def _forget_idle(self) -> None:
        """Forget idle callers not ahead of the virtual time: they would start from it anyway."""
        self._flows = {
            caller: flow
            for caller, flow in self._flows.items()
            if flow.waiting or flow.start > self._now
        }


class PriorityQueue:
    """The priority classes in order; each class after the first keeps `reserved_share` of tokens.

    While a class waits and another is served, the waiting class earns this share of the served
    tokens. Once it has earned the tokens of its next request, this request goes first.
    """

    def __init__(self, order: Sequence[Priority], reserved_share: float) -> None:
        self._order = tuple(order)
        self._share = reserved_share
        self._classes = {priority: FairQueue() for priority in order}
        self._earned = dict.fromkeys(order, 0.0)

    @property
    def num_sequences(self) -> int:
        return sum(queue.num_sequences for queue in self._classes.values())

    @property
    def by_priority(self) -> dict[Priority, int]:
        """Numbers of waiting sequences, by priority."""
        return {priority: queue.num_sequences for priority, queue in self._classes.items()}

    def push(self, ticket: Ticket) -> None:
        self._classes[ticket.priority].push(ticket)

    def remove(self, ticket: Ticket) -> None:
        self._classes[ticket.priority].remove(ticket)

    def pop(self, may_start: MayStart = always) -> Ticket | None:
        """Remove and return the next ticket that may start, or None."""
        heads = {p: queue.head(may_start) for p, queue in self._classes.items()}
        able = {priority: head for priority, head in heads.items() if head is not None}
        if not able:
            return None
        first, *later = able
        due = [p for p in later if self._earned[p] >= able[p].num_tokens]
        chosen = max(due, key=self._earned.__getitem__) if due else first
        ticket = self._classes[chosen].pop(may_start)
        waiting = [priority for priority in self._order if self._classes[priority]] + [chosen]
        for priority in self._order:
            gain = self._share * ticket.num_tokens
            self._earned[priority] += gain if priority in waiting else -self._earned[priority]
        self._earned[chosen] = max(0.0, self._earned[chosen] - ticket.num_tokens)
        return ticket

    def displaced_by(self, newcomer: Ticket, max_sequences: int) -> list[Ticket] | None:
        """Return the tickets to evict for `newcomer`, or None if `newcomer` must be refused.

        Afterwards at most `max_sequences` wait, the newcomer's included. Each class keeps
        `reserved_share` of the places. Beyond its share, a class gives way to the classes before it
        and to a class below its share. Within a class, the caller with the most waiting gives way
        to a caller with fewer.
        """
        excess = self.num_sequences + newcomer.num_sequences - max_sequences
        kept = self._share * max_sequences
        own = self._classes[newcomer.priority]
        rank = self._order.index(newcomer.priority)
        has_share = own.num_sequences + newcomer.num_sequences <= kept
        leaving: list[Ticket] = []
        for priority in reversed(self._order):
            if priority is newcomer.priority:
                room = float(own.greed_over(newcomer))
            elif has_share or self._order.index(priority) > rank:
                room = self._classes[priority].num_sequences - kept
            else:
                continue
            for ticket in self._classes[priority].newest_first():
                if excess <= 0 or ticket.num_sequences > room:
                    break
                leaving.append(ticket)
                excess -= ticket.num_sequences
                room -= ticket.num_sequences
        return leaving if excess <= 0 else None
