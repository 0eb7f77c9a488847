"""Base class of the service clients: limits on every phase, retries, typed answers and errors."""

import asyncio
import json
import math
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import MappingProxyType, TracebackType
from typing import Self, TypeVar

import aiohttp
from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    stop_after_attempt,
    stop_after_delay,
    wait_exponential_jitter,
)

from assay_shared.clients.error_answers import kind_of, read_own
from assay_shared.clients.inflation import Uninflatable
from assay_shared.clients.retry_after import read_retry_after
from assay_shared.clients.transport import (
    AnswerTooLarge,
    BrokenAnswer,
    HTTPAnswer,
    NoConnection,
    Transport,
)
from assay_shared.errors import (
    AssayError,
    InternalFault,
    InvalidInput,
    Refused,
    TimedOut,
    Unreachable,
)
from assay_shared.settings.environment import ServiceSettings
from assay_shared.telemetry import propagation
from assay_shared.telemetry.context import REQUEST_ID_HEADER, new_request_id, request_id
from assay_shared.text.masking import mask

Reply = TypeVar("Reply")
_FACTS: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_ANYTHING: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)

_MAX_CONNECTIONS = 256
#: A group of many samples with per-token log-probabilities takes a hundred megabytes.
_MAX_ANSWER_BYTES = 256 * 2**20
_MAX_ERROR_BYTES = 64 * 2**10
_MAX_SHOWN = 200


@dataclass(frozen=True)
class Timeouts:
    """Limits of one attempt. `read_s` bounds the silence between two reads."""

    connect_s: float = 5.0
    read_s: float = 120.0
    total_s: float = 300.0

    def for_aiohttp(self) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(
            total=self.total_s if math.isfinite(self.total_s) else None,
            sock_connect=self.connect_s,
            sock_read=self.read_s,
        )


@dataclass(frozen=True)
class RetryBudget:
    """Limits of retrying: at most `attempts` attempts, within `total_s` seconds."""

    attempts: int = 8
    total_s: float = 60.0
    first_wait_s: float = 0.1
    max_wait_s: float = 5.0
    #: Seconds of retrying a service that refuses connections and has never answered, or has
    #: refused for `total_s`: it is unlikely to come back soon. Without a value, `total_s` applies.
    absent_s: float | None = None


NO_RETRY = RetryBudget(attempts=1)


class ServiceClient:
    """Client of one service. Use as `async with`; safe for many concurrent calls."""

    service = "service"
    #: True for a service of our own mesh, which may learn of runs, groups and traces.
    is_ours = True
    #: Connections open at once; 0 sets no limit.
    max_connections = _MAX_CONNECTIONS
    #: Limit on the body of one answer.
    max_answer_bytes = _MAX_ANSWER_BYTES

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryBudget | None = None,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise InvalidInput(f"{base_url!r} is not an http address", field=f"{self.service}_url")
        self._base_url = base_url.rstrip("/")
        self._token = token
        self._timeouts = timeouts or Timeouts()
        self._retry = retry or RetryBudget()
        self._transport: Transport | None = None
        #: Time of the first refusal since the last answer; -inf until the service first answers.
        self._refuses_since = -math.inf

    @classmethod
    def from_settings(
        cls,
        settings: ServiceSettings,
        *,
        timeouts: Timeouts | None = None,
        retry: RetryBudget | None = None,
    ) -> Self:
        """Return a client with the service's address and token from `settings`."""
        url: str = getattr(settings, f"{cls.service}_url")
        token = settings.token_of(cls.service)
        return cls(url, token=token, timeouts=timeouts, retry=retry)

    async def __aenter__(self) -> Self:
        self._transport = Transport(
            self._base_url,
            max_connections=self.max_connections,
            max_answer_bytes=self.max_answer_bytes,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._transport is not None:
            self._transport.close()
            await asyncio.sleep(0)  # the event loop closes connections in its next round

    async def health(self) -> dict[str, object]:
        """Return the service's name, version and facts."""
        return await self._call("GET", "/health", None, TypeAdapter(dict[str, object]))

    async def health_and_time(self) -> tuple[dict[str, JsonValue], float | None]:
        """Return `health` and the service's clock: whole seconds of Unix time, or None."""
        answer = await self._send("GET", "/health", None, new_request_id())
        date = answer.headers.get("date")
        their_time = None if date is None else parsedate_to_datetime(date).timestamp()
        return self._decode(_FACTS, answer.content), their_time

    async def get(self, path: str) -> JsonValue:
        """Return the JSON answer of a GET route."""
        return await self._call("GET", path, None, _ANYTHING)

    async def ready(self) -> None:
        """Wait until the service reports ready.

        Raises:
            NotReady: the retry budget is spent and the service is still not ready.
        """
        await self._call("GET", "/ready", None, TypeAdapter(dict[str, object]))

    async def _call(
        self,
        method: str,
        path: str,
        body: BaseModel | bytes | None,
        reply: TypeAdapter[Reply],
        further: Mapping[str, str] = MappingProxyType({}),
        timeouts: Timeouts | None = None,
    ) -> Reply:
        identifier = request_id() or new_request_id()
        if self._retry.attempts == 1:
            return await self._attempt(method, path, body, reply, identifier, further, timeouts)
        attempts = AsyncRetrying(
            retry=self._can_help,
            stop=stop_after_attempt(self._retry.attempts) | stop_after_delay(self._retry.total_s),
            wait=self._wait,
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                try:
                    return await self._attempt(
                        method, path, body, reply, identifier, further, timeouts
                    )
                except AssayError as error:
                    error.attempts = max(error.attempts, attempt.retry_state.attempt_number)
                    raise
        raise AssertionError("the retry loop either returns or raises")

    def _can_help(self, state: RetryCallState) -> bool:
        """Return True if a retry can help."""
        error = state.outcome.exception() if state.outcome else None
        if not isinstance(error, AssayError) or not error.retryable:
            return False
        absent_s = self._retry.absent_s
        if absent_s is None or not isinstance(error, Refused):
            return True
        may_restart = time.monotonic() - self._refuses_since < self._retry.total_s
        return may_restart or (state.seconds_since_start or 0.0) < absent_s

    def _wait(self, state: RetryCallState) -> float:
        backoff = wait_exponential_jitter(
            multiplier=self._retry.first_wait_s, max=self._retry.max_wait_s, jitter=0.1
        )(state)
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after_s if isinstance(error, AssayError) else None
        return max(backoff, min(asked or 0.0, self._retry.total_s))

    async def _attempt(
        self,
        method: str,
        path: str,
        body: BaseModel | bytes | None,
        reply: TypeAdapter[Reply],
        identifier: str,
        further: Mapping[str, str],
        timeouts: Timeouts | None,
    ) -> Reply:
        answer = await self._send(method, path, body, identifier, further, timeouts)
        return self._decode(reply, answer.content)

    async def _send(
        self,
        method: str,
        path: str,
        body: BaseModel | bytes | None,
        identifier: str,
        further: Mapping[str, str] = MappingProxyType({}),
        timeouts: Timeouts | None = None,
    ) -> HTTPAnswer:
        """Send one request and return its answer; raise an error status as a typed error."""
        if self._transport is None:
            raise RuntimeError(f"use {type(self).__name__} as `async with`")
        headers = self._all_headers(body, identifier, further)
        data = _json_of(body) if isinstance(body, BaseModel) else body
        limits = timeouts or self._timeouts
        try:
            answer = await self._transport.ask(
                method,
                path,
                headers,
                data,
                connect_s=limits.connect_s,
                read_s=limits.read_s,
                total_s=limits.total_s,
            )
        except TimeoutError as error:
            raise TimedOut(f"{method} {path}: no answer in time", service=self.service) from error
        except (OSError, BrokenAnswer) as error:
            raise self._unreachable(method, path, error) from error
        except (AnswerTooLarge, Uninflatable) as error:
            kind = InternalFault if self.is_ours else Unreachable
            raise kind(f"{method} {path}: an answer {error}", service=self.service) from error
        except ValueError as error:
            raise InvalidInput(str(error)) from error
        self._refuses_since = math.inf
        if not 200 <= answer.status < 300:
            raise self._error(answer.status, answer.headers, answer.content)
        return answer

    @asynccontextmanager
    async def _stream(
        self,
        method: str,
        path: str,
        body: BaseModel | None,
        identifier: str,
        timeouts: Timeouts | None = None,
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Yield the body of an answer to read as it arrives; raise a broken stream as typed."""
        headers = self._all_headers(body, identifier)
        data = None if body is None else _json_of(body)
        limits = (timeouts or self._timeouts).for_aiohttp()
        try:
            async with (
                aiohttp.ClientSession(headers={"accept-encoding": "identity"}) as session,
                session.request(
                    method,
                    self._base_url + path,
                    data=data,
                    headers=headers,
                    timeout=limits,
                    allow_redirects=False,
                ) as response,
            ):
                self._refuses_since = math.inf
                if not 200 <= response.status < 300:
                    content = await response.content.read(_MAX_ERROR_BYTES)
                    found = {name.lower(): value for name, value in response.headers.items()}
                    raise self._error(response.status, found, content)
                yield response.content
        except TimeoutError as error:
            raise TimedOut(f"{method} {path}: no answer in time", service=self.service) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(method, path, error) from error

    def _unreachable(self, method: str, path: str, error: Exception) -> Unreachable:
        if isinstance(error, NoConnection | aiohttp.ClientConnectorError):
            return self._refused(error)
        where = mask(f"{method} {self._base_url}{path}", self._token)
        return Unreachable(f"{where}: {error or type(error).__name__}", service=self.service)

    def _all_headers(
        self,
        body: BaseModel | bytes | None,
        identifier: str,
        further: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, str]:
        headers = {REQUEST_ID_HEADER: identifier, **self._headers(), **further}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        if self.is_ours:
            headers |= propagation.inject()
        if body is not None:
            is_bytes = isinstance(body, bytes)
            kind = "application/octet-stream" if is_bytes else "application/json"
            headers.setdefault("content-type", kind)
        return headers

    def _refused(self, error: NoConnection | aiohttp.ClientConnectorError) -> Refused:
        # If the host name cannot be resolved, errno is not a number of the system's errors.
        known = (error.errno or 0) > 0
        reason = os.strerror(error.errno or 0) if known else error.strerror or str(error)
        self._refuses_since = min(self._refuses_since, time.monotonic())
        hint = f"start it, or set ASSAY_{self.service.upper()}_URL" if self.is_ours else None
        message = f"no {self.service} service at {self._base_url}: {reason}"
        return Refused(message, hint=hint, service=self.service)

    def _headers(self) -> Mapping[str, str]:
        """Return further headers for each request; a subclass overrides this."""
        return {}

    def _decode(self, reply: TypeAdapter[Reply], content: bytes) -> Reply:
        try:
            return reply.validate_json(content)
        except ValidationError as error:
            # The proxy of a foreign service may have answered, or cut the answer off.
            kind = InternalFault if self.is_ours else Unreachable
            raise kind(
                f"an answer that cannot be read: {error.errors()[0]['msg']}", service=self.service
            ) from error

    def _error(self, status: int, headers: Mapping[str, str], content: bytes) -> AssayError:
        """Return the typed error of an unsuccessful answer; header names are in lower case."""
        known = read_own(content) if self.is_ours else None
        if known is not None:
            return known
        message = f"HTTP {status}: {mask(_excerpt(content), self._token)}"
        if 300 <= status < 400:
            where = mask(headers.get("location", "elsewhere")[:_MAX_SHOWN], self._token)
            message = f"HTTP {status}: it sends to {where}, which is not followed"
        return self._kind(status)(
            message,
            service=self.service,
            retry_after_s=read_retry_after(headers.get("retry-after", ""), time.time()),
        )

    def _kind(self, status: int) -> type[AssayError]:
        return kind_of(status, is_ours=self.is_ours)


def _json_of(body: BaseModel) -> bytes:
    """Return the JSON of `body`. Lone surrogates, which language models can write, are escaped."""
    try:
        return body.__pydantic_serializer__.to_json(body)
    except PydanticSerializationError:
        return json.dumps(body.model_dump(mode="json")).encode()


def _excerpt(content: bytes) -> str:
    return json.dumps(content[:_MAX_SHOWN].decode(errors="replace"))
