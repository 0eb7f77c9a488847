"""The engine's schedule: within its room, in order of arrival, in parts.

If a request's rows do not fit at once, some of them run, and the others wait behind the later
requests. Of the free rows, a large request leaves the later requests their part. Prompts are read
in chunks, with a step of the running rows after each.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

import torch

from assay_inference.engines.transformers.decoder import Decoder
from assay_inference.engines.transformers.jobs import Generate, JobRow, Load
from assay_inference.engines.transformers.kv_cache import Reading
from assay_inference.engines.transformers.memory import Room, is_out_of_memory
from assay_inference.engines.transformers.model import LoadedModel
from assay_inference.engines.transformers.prefix_cache import (
    BLOCK_TOKENS,
    Block,
    Columns,
    PrefixCache,
    columns_of,
)
from assay_shared.errors import EngineFault, NotReady

_log = logging.getLogger(__name__)
#: Prompts that are read together: short ones are read faster so.
_MAX_PROMPTS = 16
#: With this number of known tokens, reading a prompt alone costs no more than with others.
_LEAST_KNOWN = 2 * BLOCK_TOKENS
#: Tokens of a chunk, where rows wait for the next step, and where none do.
_CHUNK_TOKENS, _LONE_CHUNK_TOKENS = 128, 512
#: A GPU reads this number of times more in the same time.
_GPU_FACTOR = 16
#: Of the room, what known tokens may take where no rows need it.
_KNOWN_SHARE = 0.25
#: Of the bytes in use when memory ran out, what rows may take afterwards.
_LESS = 0.75
_MAX_STRIKES = 2
#: A request with this share of all rows is begun whole where it fits: reading it twice costs more.
_WHOLE = 0.25


@dataclass
class _Part:
    """Rows of a request with the same ids so far."""

    request: Generate
    rows: list[JobRow]
    ids: list[int]
    known: list[Block]

    @property
    def num_to_read(self) -> int:
        return len(self.ids) - len(self.known) * BLOCK_TOKENS

    def goes_with(self, others: "Sequence[_Part]") -> bool:
        """Return True if reading the parts together is correct, and not slower than separately."""
        first = others[0]
        if self.request.reads_alone or first.request.reads_alone:
            return False
        if self.known[-1:] != first.known[-1:] or len(others) == _MAX_PROMPTS:
            return False
        start = len(self.known) * BLOCK_TOKENS
        end = start + _LEAST_KNOWN
        if len(self.ids) > end and any(self.ids[:end] == other.ids[:end] for other in others):
            return False  # what the first of them reads will be known to the next
        lengths = [part.num_to_read for part in (*others, self)]
        return max(lengths) * len(lengths) <= 2 * sum(lengths)


class Schedule:
    """Used by the engine's thread alone."""

    def __init__(self) -> None:
        self.waiting: deque[Generate | Load] = deque()
        self.running = Decoder(self._remember)
        self.room: Room | None = None
        self._known = PrefixCache()
        self._reading: Reading | None = None
        self._parts: list[_Part] = []
        self._newest: Generate | None = None
        self.num_read = 0
        self.num_known = 0

    @property
    def is_busy(self) -> bool:
        """Return True while rows are read or sampled."""
        return bool(self.running.rows or self._parts)

    @property
    def num_reserved(self) -> int:
        """Return the most bytes the rows can take."""
        if self.room is None:
            return 0
        num_rows = len(self.running.rows) + sum(len(part.rows) for part in self._parts)
        return self.room.cost.of(num_rows, self._num_tokens_with(self._parts))

    def use(self, room: Room) -> None:
        """Sample within `room`; forget everything read under other weights."""
        self.room = room
        self.forget()

    def turn(self, model: LoadedModel) -> int:
        """Read a chunk, and draw a token of each row; the number drawn."""
        self._start_reading()
        self._read(model)
        if not self.running.rows:
            return 0
        try:
            num_drawn = self.running.step()
        except Exception as error:  # noqa: BLE001  # a boundary: it is the fault of one of the rows
            self._fail_step(error)
            return 0
        return num_drawn

    def put_back(self) -> None:
        """Take out all rows; they are read again before anything else starts."""
        rows = self.running.leave_unfinished()
        self._stop_reading()
        requests = list({id(row.request): row.request for row in rows}.values())
        for request in reversed(requests):
            own = [row for row in rows if row.request is request and row.finish_reason is None]
            request.pending.extendleft(reversed(own))
            if request.is_finished:
                request.finish()
            else:
                self._to_front(request)

    def redraw(self) -> None:
        """Remove all rows, and forget the tokens of unfinished requests."""
        self.put_back()
        for request in self.waiting:
            if isinstance(request, Generate) and any(row.token_ids for row in request.samples):
                try:
                    request.redraw()
                except NotReady as error:
                    request.fail(error)

    def give_up(self) -> None:
        """Forget all requests; they have their answers."""
        self.waiting.clear()
        self.running.leave_unfinished()
        self._reading, self._parts = None, []
        self.forget()

    def forget(self) -> None:
        """Forget the cached prefixes of earlier prompts."""
        self._known.clear()

    # Reading

    def _start_reading(self) -> None:
        if self._parts:
            return
        while self.waiting and isinstance(request := self.waiting[0], Generate):
            if request.is_over or not request.pending:
                self.waiting.popleft()
                continue
            part = self._next_part(request)
            if self._parts and not part.goes_with(self._parts):
                return
            num = self._num_fitting(part)
            if not num:
                return
            self._begin(part, num)

    def _next_part(self, request: Generate) -> _Part:
        drawn = request.pending[0].token_ids
        rows = list(takewhile(lambda row: row.token_ids == drawn, request.pending))
        ids = rows[0].token_ids_to_read
        known = self._known.find(ids)
        known = known if len(known) * BLOCK_TOKENS >= _LEAST_KNOWN else []
        return _Part(request, rows, ids, known)

    def _num_fitting(self, part: _Part) -> int:
        """Return how many rows of the part fit now; fail if none can ever fit."""
        assert self.room is not None
        num_rows = len(self.running.rows) + sum(len(one.rows) for one in self._parts)
        num = self.room.num_fitting(num_rows, self._num_tokens_with([*self._parts, part]))
        if num == 0 and num_rows == 0:
            part.request.fail(EngineFault("there is no memory left for a single sample"))
            self.waiting.popleft()
        return min(num, len(part.rows), self._most_rows(num))

    def _most_rows(self, num_free: int) -> int:
        """Return the most rows that a request may begin at once while others wait."""
        assert self.room is not None
        num_waiting = sum(isinstance(job, Generate) for job in self.waiting)
        return max(math.ceil(num_free / max(1, num_waiting)), int(_WHOLE * self.room.max_rows), 1)

    def _begin(self, part: _Part, num_rows: int) -> None:
        """Start some rows of the first waiting request; the rest waits behind the others."""
        assert self.room is not None
        request = part.request
        part.rows = [request.pending.popleft() for _ in range(num_rows)]
        self._parts.append(part)
        self.waiting.popleft()
        if request.pending:
            loads = [i for i, job in enumerate(self.waiting) if isinstance(job, Load)]
            self.waiting.insert(loads[0] if loads else len(self.waiting), request)
        self._known.shrink(self.room.max_bytes - self.num_reserved)

    def _num_tokens_with(self, parts: Sequence[_Part]) -> int:
        """Return the number of columns of the batch with these parts."""
        if not parts:
            return self.running.num_tokens
        known = len(parts[0].known) * BLOCK_TOKENS
        columns = known + max(part.num_to_read for part in parts)
        left = max(row.num_left for part in parts for row in part.rows)
        return max(self.running.num_tokens, columns + left)

    def _read(self, model: LoadedModel) -> None:
        if not self._parts:
            return
        if all(part.request.is_over for part in self._parts):
            self._reading, self._parts = None, []
            return
        try:
            if self._reading is None:
                blocks = self._parts[0].known
                known = columns_of(blocks) if blocks else None
                prompts = [part.ids for part in self._parts]
                self._reading = Reading(model.network, prompts, known)
            is_read = self._reading.advance(self._chunk_tokens(model))
        except Exception as error:  # noqa: BLE001  # a boundary: these requests learn of it
            self._fail_reading(error)
            return
        if is_read:
            self._join(model, self._reading)

    def _chunk_tokens(self, model: LoadedModel) -> int:
        num = _CHUNK_TOKENS if self.running.rows else _LONE_CHUNK_TOKENS
        return num if model.network.device.type == "cpu" else num * _GPU_FACTOR

    def _join(self, model: LoadedModel, reading: Reading) -> None:
        for index, part in enumerate(self._parts):
            self.num_known += len(part.known) * BLOCK_TOKENS
            self.num_read += part.num_to_read
            if not part.rows[0].token_ids:
                self._keep(part.ids, partial(reading.columns, index))
        parts, self._parts, self._reading = self._parts, [], None
        self._newest = parts[-1].request
        try:
            self.running.join(model, reading, [part.rows for part in parts])
        except Exception as error:  # noqa: BLE001  # a boundary, as for a step
            self._fail_step(error)

    def _stop_reading(self) -> None:
        """Put the prompts in reading back in the queue."""
        parts, self._parts, self._reading = self._parts, [], None
        for part in reversed(parts):
            part.request.pending.extendleft(reversed(part.rows))
            self._to_front(part.request)

    def _to_front(self, request: Generate) -> None:
        if request in self.waiting:
            self.waiting.remove(request)
        self.waiting.appendleft(request)

    # What is known

    def _remember(self, row: JobRow, columns: Callable[[], Columns]) -> None:
        """Keep a finished answer for a conversation to continue; of several, none is likely."""
        if row.request.sampling.n == 1:
            self._keep((row.request.prompt + row.token_ids)[:-1], columns)

    def _keep(self, ids: list[int], columns: Callable[[], Columns]) -> None:
        assert self.room is not None
        left = self.room.max_bytes - self.num_reserved
        most = min(int(_KNOWN_SHARE * self.room.max_bytes), left)
        if most <= 0 or len(ids) < BLOCK_TOKENS:
            return
        try:
            self._known.insert(ids, columns(), most)
        except Exception as error:  # noqa: BLE001  # an answer does not depend on it
            if not is_out_of_memory(error):
                _log.exception("a prefix could not be kept")
            self._known.clear()

    # Failures

    def _fail_reading(self, error: Exception) -> None:
        """Fail the only request in reading; of several, read each separately."""
        _log.exception("a prompt could not be read")
        parts = self._parts
        self._make_room(error)
        if len(parts) == 1:
            self._reading, self._parts = None, []
            parts[0].request.fail(_fault(error, "a prompt"))
            return
        self._stop_reading()
        for part in parts:
            part.request.reads_alone = True

    def _fail_step(self, error: Exception) -> None:
        """Read all rows again, each request separately; fail the request that broke two steps.

        The newest request is suspect: the others ran before it joined.
        """
        _log.exception("a step failed")
        requests = self.running.requests()
        suspect = self._newest if self._newest in requests else requests[-1]
        assert suspect is not None
        suspect.num_strikes += 1
        self._make_room(error)
        self.put_back()
        for request in requests:
            request.reads_alone = True
        if suspect in self.waiting:  # behind the others, so that it joins last again
            self.waiting.remove(suspect)
            self.waiting.insert(len(requests) - 1, suspect)
        if len(requests) == 1 or suspect.num_strikes >= _MAX_STRIKES:
            suspect.fail(_fault(error, "a step"))

    def _make_room(self, error: Exception) -> None:
        """Use less memory after an error for lack of it."""
        if self.room is None or not is_out_of_memory(error):
            return
        self._known.clear()
        torch.cuda.empty_cache()
        rows = [*self.running.rows, *(row for part in self._parts for row in part.rows)]
        longest = max(len(row.request.prompt) + row.request.sampling.max_tokens for row in rows)
        least = self.room.cost.of(1, longest)
        used = max(least, int(_LESS * self.num_reserved))
        self.room = Room(self.room.cost, min(self.room.max_bytes, used), self.room.max_rows)


def _fault(error: Exception, what: str) -> EngineFault:
    if is_out_of_memory(error):
        return EngineFault(f"the engine ran out of memory at {what}", retry_after_s=1.0)
    return EngineFault(f"the engine failed at {what}: {type(error).__name__}: {error}")
