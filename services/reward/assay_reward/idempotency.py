"""Responses by key: who asks again gets what was answered, and nothing is measured twice."""

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

    Only a response without failures is kept: what failed may be asked for again.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        #: By key: the digest of the request, and the response's JSON.
        self._kept: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._flights: SingleFlight[ScoreResponse] = SingleFlight()

    async def once(self, request: ScoreRequest, score: Score) -> ScoreResponse:
        """What `score` gives, or gave before for this key, or is giving right now.

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
            # Two requests that used one key at the same moment: the later response stays.
            _, replaced = self._kept.pop(key, ("", ""))
            self._num_bytes -= len(replaced)
            self._kept[key] = (digest, text)
            self._num_bytes += len(text)
            while self._num_bytes > self._max_bytes:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._num_bytes -= len(dropped)
        return response
