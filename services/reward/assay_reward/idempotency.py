"""Responses by request key: a repeated request gets the first response, measured once."""

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from assay_shared.errors import Conflict
from assay_shared.runtime.single_flight import SingleFlight
from assay_shared.types import Scored, ScoreRequest, ScoreResponse

Score = Callable[[], Coroutine[Any, Any, ScoreResponse]]


class ResponseCache:
    """The newest responses of this process, up to `max_bytes` of their JSON.

    Only a response without failures is kept, so a failed request can be repeated.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        #: The request's digest and the response's JSON, by key.
        self._kept: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._flights: SingleFlight[ScoreResponse] = SingleFlight()

    async def once(self, request: ScoreRequest, score: Score) -> ScoreResponse:
        """Return the kept or pending response for the request's key, else run `score`.

        Raises:
            Conflict: the key was used for another request.
        """
        key = request.key
        if key is None:
            return await score()
        digest = hashlib.sha256(request.model_dump_json().encode()).hexdigest()
        if key in self._kept:
            first_digest, text = self._kept[key]
            if first_digest != digest:
                raise Conflict(
                    "the key was used for another request", field="key", hint="take a new one"
                )
            self._kept.move_to_end(key)
            return ScoreResponse.model_validate_json(text)
        return await self._flights.run((key, digest), lambda: self._keep(key, digest, score()))

    async def _keep(
        self, key: str, digest: str, scoring: Awaitable[ScoreResponse]
    ) -> ScoreResponse:
        response = await scoring
        if all(isinstance(reward, Scored) for reward in response.rewards):
            text = response.model_dump_json()
            # If two different requests used the key at the same moment, the later response stays.
            _, replaced = self._kept.pop(key, ("", ""))
            self._num_bytes -= len(replaced)
            self._kept[key] = (digest, text)
            self._num_bytes += len(text)
            while self._num_bytes > self._max_bytes:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._num_bytes -= len(dropped)
        return response
