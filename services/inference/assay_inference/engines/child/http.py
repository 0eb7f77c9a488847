"""The HTTP protocol between the service and an engine's server."""

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import aiohttp

from assay_shared.errors import AssayError, InternalFault, InvalidInput, TimedOut, Unreachable
from assay_shared.types import FinishReason, SamplingParams, TopLogprobs

MAX_LINE_BYTES = 16 * 2**20
CONNECT_TIMEOUT_S = 10.0
#: A request that is wrong in itself, or too long.
_REFUSALS = (400, 413, 422)
Json = dict[str, object]


@dataclass
class Drawn:
    """A growing sample; a sample given up by the server has no finish reason."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    top_logprobs: list[TopLogprobs] = field(default_factory=list)


def derived_seed(name: str) -> int:
    """Return a seed derived from a name; different names give different seeds."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")


class ServerApi(Protocol):
    """Unreachable: the server is gone or its engine failed. TimedOut: no answer in time.

    InvalidInput: it refuses to draw this. EngineFault: its answer cannot be used.
    """

    async def close(self) -> None: ...

    async def check_health(self, timeout_s: float) -> None:
        """Return if the server listens and its engine has started."""
        ...

    async def metrics_text(self, timeout_s: float) -> str: ...

    async def prompt_logprobs(self, token_ids: Sequence[int], timeout_s: float) -> list[float]:
        """Return the log-probability of each id but the first, given the ids before it."""
        ...

    async def read(
        self, token_ids: Sequence[int], num_top: int, timeout_s: float
    ) -> list[tuple[float, TopLogprobs]]:
        """Return the same, each with the `num_top` most probable ids in its place."""
        ...

    async def generate(
        self,
        prompt: list[int],
        sampling: SamplingParams,
        end_ids: frozenset[int],
        timeout_s: float,
    ) -> list[Drawn]:
        """Return all samples, once all are finished."""
        ...

    def stream(
        self,
        prompt: list[int],
        sampling: SamplingParams,
        end_ids: frozenset[int],
        timeout_s: float,
    ) -> AsyncGenerator[tuple[int, Drawn], None]:
        """Yield a sample's index and all of its tokens so far, each time it grows."""
        ...


@runtime_checkable
class Pausable(Protocol):
    """A server able to take new weights with requests in flight."""

    async def pause(self, timeout_s: float) -> None:
        """Give up all sequences in flight; they are answered with their tokens so far."""
        ...

    async def resume(self, timeout_s: float) -> None: ...


class RequestRefused(InternalFault):
    """The server refuses a request of the service (4xx)."""


@contextmanager
def as_callers() -> Iterator[None]:
    """Raise InvalidInput in place of a refusal, for requests composed by the caller."""
    try:
        yield
    except RequestRefused as error:
        raise InvalidInput(error.message, field="sampling") from error


class ServerConnection:
    """HTTP with a server and the routes common to all servers; errors carry its `name`."""

    def __init__(
        self,
        name: str,
        connector: aiohttp.BaseConnector,
        *,
        base_url: str = "http://engine",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._base_url = base_url
        self._session = aiohttp.ClientSession(
            connector=connector, read_bufsize=MAX_LINE_BYTES, headers=headers
        )

    async def close(self) -> None:
        await self._session.close()

    async def check_health(self, timeout_s: float) -> None:
        await self.text("GET", "/health", None, timeout_s)

    async def metrics_text(self, timeout_s: float) -> str:
        return await self.text("GET", "/metrics", None, timeout_s)

    async def max_length(self, timeout_s: float) -> int:
        """Return the server's longest context."""
        models = json.loads(await self.text("GET", "/v1/models", None, timeout_s))
        return int(models["data"][0]["max_model_len"])

    async def events(
        self, path: str, body: Json, timeout_s: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield a stream's events. Raises Unreachable, or RequestRefused for an `error`."""
        async with self.request("POST", path, body, timeout_s) as response:
            async for line in response.content:
                payload = line.removeprefix(b"data: ").strip()
                if not payload or payload == b"[DONE]":
                    continue
                event: dict[str, Any] = json.loads(payload)
                if "error" in event:
                    raise self._error_event(event["error"])
                yield event

    async def text(self, method: str, path: str, body: Json | None, timeout_s: float) -> str:
        async with self.request(method, path, body, timeout_s) as response:
            return await response.text()

    @asynccontextmanager
    async def request(
        self, method: str, path: str, body: Json | None, timeout_s: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Raises Unreachable (gone, or 5xx), TimedOut, or RequestRefused (4xx)."""
        limits = aiohttp.ClientTimeout(total=timeout_s, connect=CONNECT_TIMEOUT_S)
        try:
            async with self._session.request(
                method, f"{self._base_url}{path}", json=body, timeout=limits
            ) as response:
                if response.status >= 400:
                    raise self._refusal(response.status, path, await response.text())
                yield response
        except TimeoutError as error:
            raise TimedOut(f"{self._name} did not answer {path} within {timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"{self._name} is gone: {error or type(error).__name__}") from error

    def _error_event(self, found: object) -> AssayError:
        is_refusal = isinstance(found, dict) and found.get("code") in _REFUSALS
        message = f"{self._name} failed: {str(found)[:400]}"
        return RequestRefused(message) if is_refusal else Unreachable(message)

    def _refusal(self, status: int, path: str, text: str) -> AssayError:
        message = f"{self._name} answered {path} with {status}: {' '.join(text.split())[:400]}"
        return Unreachable(message) if status >= 500 else RequestRefused(message)
