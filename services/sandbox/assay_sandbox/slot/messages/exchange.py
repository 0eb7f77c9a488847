"""Messages between a program and its grader, and the containers held by both.

Both sides keep the same list of containers, in the same order: all containers sent with a message,
from either side, and still held by code of a side. A message lists the containers changed by its
sender since the last message. A list held by both sides is thus a single list for the test code.

A message is a count and the numbers of the containers to keep after it, and then a value, see
`wire`: a tuple of the changes and the message's own parts.
"""

import sys
from collections.abc import Callable
from typing import Any

from assay_sandbox.slot.messages import wire
from assay_sandbox.slot.messages.decoder import ValueDecoder
from assay_sandbox.slot.messages.encoder import Encoder
from assay_sandbox.slot.messages.wire import COUNT, MalformedMessage

#: References to a container held only by the list, during the check of its references.
_OWN_REFERENCES = 2


class Exchange:
    """One side of a channel."""

    def __init__(
        self,
        channel_fd: int,
        put: Callable[[Encoder, Any, int], None],
        get: Callable[[ValueDecoder, bytes], Any],
    ) -> None:
        self._line = wire.MessageLine(channel_fd)
        self._put = put
        self._get = get
        self._containers: list[Any] = []
        self._snapshots: list[tuple[Any, ...]] = []

    def send(self, parts: list[Any], *, with_changes: bool = True) -> None:
        """Send a message, and empty `parts`: otherwise it would hold containers.

        Raises:
            CannotEncode: a value cannot be sent; nothing was sent.
            OSError: the other side is gone.
        """
        changes = self._changes() if with_changes else ()
        encoder = Encoder(self._put)
        encoder.adopt(self._containers)
        data = encoder.dumps((changes, *parts))
        parts.clear()
        del changes
        self._containers = encoder.shared
        kept = self._prune()
        self._note()
        self._line.send(b"".join([COUNT.pack(len(kept)), *map(COUNT.pack, kept), data]))

    def receive(self) -> list[Any] | None:
        """Return the parts of the next message, or None when the other side is gone.

        Raises:
            MalformedMessage: the message is not valid.
            CannotGrade: a value in the message cannot be built here.
        """
        data = self._line.receive()
        if data is None:
            return None
        if len(data) < COUNT.size:
            raise MalformedMessage("the message ends too early")
        (num_kept,) = COUNT.unpack_from(data)
        start = COUNT.size * (num_kept + 1)
        kept = [COUNT.unpack_from(data, at)[0] for at in range(COUNT.size, start, COUNT.size)]
        decoder = ValueDecoder(self._get)
        decoder.shared = self._containers
        message = decoder.loads(data[start:])
        if type(message) is not tuple or len(message) < 2 or type(message[0]) is not tuple:
            raise MalformedMessage("not a message")
        for number, contents in message[0]:
            wire.refill(decoder.shared[number], contents)
        self._containers = [decoder.shared[number] for number in kept]
        self._note()
        return list(message[1:])

    def _changes(self) -> tuple[Any, ...]:
        pairs = zip(self._containers, self._snapshots, strict=True)
        return tuple(
            (number, wire.contents(value))
            for number, (value, before) in enumerate(pairs)
            if wire.is_changed(value, before)
        )

    def _prune(self) -> list[int]:
        """Drop the containers held by nobody else; return the numbers of the others.

        A container comes before the containers in it, so these can be dropped after it.
        """
        self._snapshots = []
        kept = []
        for number in range(len(self._containers)):
            if sys.getrefcount(self._containers[number]) > _OWN_REFERENCES:
                kept.append(number)
            else:
                self._containers[number] = None
        self._containers = [self._containers[number] for number in kept]
        return kept

    def _note(self) -> None:
        self._snapshots = [wire.snapshot(value) for value in self._containers]
