"""The client of a model: it asks an OpenAI-compatible chat endpoint until a reply can be used."""

import asyncio
import os
import random
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from assay_shared.clients import Timeouts
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import (
    AssayError,
    BudgetExceeded,
    CallerError,
    ConfigError,
    ModelFault,
    Overloaded,
    TimedOut,
)
from assay_shared.providers.breaker import Breaker, BreakerOpen
from assay_shared.providers.call import OVER, ModelCall, OutOfTime
from assay_shared.providers.config import ModelConfig
from assay_shared.providers.endpoint import (
    ChatEndpoint,
    Declined,
    EndpointReply,
    Messages,
    RefusedContent,
    text_of,
)
from assay_shared.providers.escalation import Attempt
from assay_shared.providers.reply import Truncated, UnreadableReply
from assay_shared.providers.state.limits import MAX_PAUSE_S
from assay_shared.providers.state.state import SharedState
from assay_shared.providers.usage import estimate_prompt
from assay_shared.runtime.single_flight import SingleFlight
from assay_shared.telemetry.tracing import span
from assay_shared.text.masking import mask

#: `service` of an error of the shared state: it is not the provider's fault.
_SHARED = "redis"
_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.1, 5.0
#: The event loop's timer may fire this early.
_TICK_S = 0.005
Finding = TypeVar("Finding")
Read_co = TypeVar("Read_co", covariant=True)


class ProviderRefused(ModelFault):
    """The endpoint refused the request: asking again cannot help."""

    retryable = False


class TooManyTokens(ModelFault):
    """The endpoint refused a request with a raised `max_tokens`, perhaps because of it."""


class ReplyReader(Protocol[Read_co]):
    """What a caller makes of a reply, and of the text kept from it."""

    def read(self, reply: EndpointReply) -> Read_co:
        """Return the finding of a reply.

        Raises:
            Truncated: the reply is empty or cut off.
            Declined: a filter ended the reply.
            UnreadableReply: the reply has another form than requested.
        """
        ...

    def kept(self, reply: EndpointReply) -> str:
        """Return the text to keep in the cache of a reply that was read."""
        ...

    def restore(self, kept: str) -> Read_co:
        """Return the finding of a kept text. Raises UnreadableReply for another form."""
        ...


@dataclass(frozen=True)
class ModelQuestion(Generic[Finding]):
    """A conversation for a model to continue, the sampling of the first request, and the reader.

    Callers with the same `key` share a reply, in flight or from the cache. `extra` holds further
    fields of the request.
    """

    key: str
    messages: Messages
    step: Attempt
    reader: ReplyReader[Finding]
    extra: dict[str, Any] = field(default_factory=dict)

    def num_tokens(self, step: Attempt) -> int:
        """Return the most tokens of a request, prompt and reply, with the prompt's estimated."""
        return estimate_prompt(text_of(self.messages)) + step.max_tokens


@dataclass(frozen=True)
class ModelAnswer(Generic[Finding]):
    """A finding, and the text kept of it. `num_requests` is 0 for the reply of another caller."""

    kept: str
    finding: Finding
    num_requests: int


class ModelClient(Generic[Finding]):
    """A model behind a chat endpoint: limits, retries, breaker, ledger and cache around it."""

    def __init__(self, config: ModelConfig, shared: SharedState, ceiling: float | None) -> None:
        self.name = config.name
        self._config = config
        self._shared = shared
        self._ceiling = ceiling
        self._paused_until = 0.0
        self._breaker = Breaker(config.open_after, config.cooldown_s)
        shared.metrics.watch(self.name, lambda: self.is_open)
        #: Callers of the same question share its text; each reads it with its own reader.
        self._flights: SingleFlight[ModelAnswer[Finding]] = SingleFlight()
        self._endpoint = ChatEndpoint(
            config.base_url,
            token=_key(config),
            timeouts=Timeouts(read_s=config.timeout_s, total_s=config.timeout_s),
            retry=NO_RETRY,
        )
        self._endpoint.served_as = config.served_as
        self._endpoint.service = f"{shared.user} provider"

    @property
    def is_open(self) -> bool:
        """True while the circuit is open: the endpoint is not asked now."""
        return self._breaker.is_open

    @property
    def paused_s(self) -> float:
        """Seconds left of the pause requested by the endpoint."""
        return max(0.0, self._paused_until - time.monotonic())

    async def open(self) -> None:
        await self._endpoint.__aenter__()

    async def close(self) -> None:
        await self._endpoint.__aexit__(None, None, None)

    async def ask(self, question: ModelQuestion[Finding], call: ModelCall) -> ModelAnswer[Finding]:
        """Return the finding on a question; one in flight or in the cache is not sent again.

        Raises:
            BudgetExceeded: the run of this caller has reached its ceiling.
            OutOfTime: the time of the call is over.
            AssayError: the bill of the call refused a request.
            ModelFault: all requests failed; the message has the reason of each.
            ProviderRefused: all requests failed, and asking again cannot help.
        """
        kept = await self._shared.cache.get(question.key)
        if kept is not None:
            return ModelAnswer(kept, question.reader.restore(kept), 0)
        is_first = False

        def work() -> Coroutine[Any, Any, ModelAnswer[Finding]]:
            nonlocal is_first
            is_first = True
            return self._ask_until_read(question, call)

        while True:
            try:
                answered = await self._flights.run(question.key, work)
            except (BudgetExceeded, OutOfTime):
                if is_first:
                    raise
                # The first caller had no more time or money. This caller may have both.
                continue
            if is_first:
                return answered
            return ModelAnswer(answered.kept, question.reader.restore(answered.kept), 0)

    async def _ask_until_read(
        self, question: ModelQuestion[Finding], call: ModelCall
    ) -> ModelAnswer[Finding]:
        history: list[str] = []
        following: Attempt | None = question.step
        retryable = True
        while following is not None:
            step = following
            tokens = question.num_tokens(step)
            await call.bill.enter(tokens)
            try:
                reply = await self._ask_once(question, step, tokens, call)
                finding = question.reader.read(reply)
            except (BudgetExceeded, OutOfTime):
                raise
            except AssayError as error:
                history.append(f"{step}: {error}")
                retryable = error.retryable
                following = await self._after(error, question, step, len(history), call)
                continue
            self._breaker.succeeded()
            kept = question.reader.kept(reply)
            await self._shared.cache.put(question.key, kept)
            return ModelAnswer(kept, finding, len(history) + 1)
        kind = ModelFault if retryable else ProviderRefused
        raise kind("; ".join(history), attempts=len(history))

    async def _after(
        self,
        error: AssayError,
        question: ModelQuestion[Finding],
        step: Attempt,
        number: int,
        call: ModelCall,
    ) -> Attempt | None:
        """Return the next try, after a wait if it may help; None if nothing is left to try."""
        if isinstance(error, ProviderRefused | BreakerOpen | CallerError):
            return None
        if isinstance(error, Truncated | UnreadableReply | Declined):
            # The judged answer can cause these: counted, it could open the circuit for everybody.
            self._breaker.left()
        elif not isinstance(error, Overloaded) and error.service != _SHARED:
            self._breaker.failed()
        if number >= self._config.attempts:
            return None
        if isinstance(error, TooManyTokens):
            return replace(step.reseeded(), max_tokens=question.step.max_tokens)
        if isinstance(error, Truncated):
            return step.with_more_tokens(self._config.max_tokens_limit)
        if isinstance(error, ModelFault):
            return step.reseeded()
        return step if await self._rest(error.retry_after_s, number, call) else None

    async def _rest(self, asked_s: float | None, number: int, call: ModelCall) -> bool:
        """Wait before the next try. Return False, without waiting, if the deadline is too close."""
        backoff_s = min(_FIRST_BACKOFF_S * 2 ** (number - 1), _MAX_BACKOFF_S)
        wait_s = max(asked_s or 0.0, backoff_s * random.uniform(0.5, 1.0))
        if time.monotonic() + wait_s > call.deadline:
            return False
        await asyncio.sleep(wait_s)
        return True

    async def _ask_once(
        self, question: ModelQuestion[Finding], step: Attempt, tokens: int, call: ModelCall
    ) -> EndpointReply:
        """Send one request of up to `tokens`, within all limits, charge it, and return its reply.

        Raises:
            BudgetExceeded: the run of this caller has reached its ceiling.
            Overloaded: the endpoint or one of our limits has no room now.
            ProviderRefused: the endpoint refused the request for good.
            TooManyTokens: the endpoint refused a request with a raised `max_tokens`.
            BreakerOpen: the circuit is open.
            OutOfTime: the time of the call is over.
        """
        try:
            await self._shared.ledger.check(call.run, call.caller, self._ceiling)
            async with self._shared.limiter.admit(
                self.name, self._config.limits, tokens, call.caller, call.left_s()
            ) as grant:
                self._breaker.enter()
                reply = await self._send(question, step, call)
                usage, price = reply.usage, self._config.price
                grant.settle(usage.prompt_tokens + usage.completion_tokens)
                call.bill.add(usage, price)
                self._shared.metrics.charge(self.name, usage, price)
                await self._shared.ledger.charge(call.run, call.caller, self.name, usage, price)
                return reply
        finally:
            call.bill.leave(tokens)

    async def _send(
        self, question: ModelQuestion[Finding], step: Attempt, call: ModelCall
    ) -> EndpointReply:
        """Ask the endpoint, and tell the breaker of refusals."""
        try:
            return await self._complete(question, step, call)
        except Overloaded as error:
            self._breaker.left()
            await self._pause(error.retry_after_s or 1.0)
            raise
        except CallerError as error:
            if step.max_tokens > question.step.max_tokens:
                raise TooManyTokens(str(error)) from error
            if isinstance(error, RefusedContent):
                self._breaker.left()
            else:
                self._breaker.failed()
            raise ProviderRefused(str(error)) from error
        except BaseException:
            self._breaker.left()
            raise

    async def _complete(
        self, question: ModelQuestion[Finding], step: Attempt, call: ModelCall
    ) -> EndpointReply:
        """Ask the endpoint, for at most the rest of the call's time."""
        left_s, model = call.left_s(), self._config.model
        extra = question.extra | self._config.extra_body
        try:
            with (
                span(f"{self._shared.user}.call", provider=self.name, model=model),
                self._shared.metrics.request(self.name),
            ):
                return await self._endpoint.complete(model, question.messages, step, extra, left_s)
        except TimedOut as error:
            if time.monotonic() < call.deadline - _TICK_S:
                raise
            raise OutOfTime(OVER) from error

    async def _pause(self, seconds: float) -> None:
        pause_s = min(seconds, MAX_PAUSE_S)
        self._paused_until = max(self._paused_until, time.monotonic() + pause_s)
        await self._shared.limiter.pause(self.name, pause_s)


def _key(config: ModelConfig) -> str | None:
    if config.api_key_file is not None:
        try:
            return config.api_key_file.read_text().strip()
        except OSError as error:
            # A relative path may be the key itself, in the wrong place.
            path = mask(str(config.api_key_file)) if config.api_key_file.is_absolute() else "a file"
            raise ConfigError(
                f"provider {config.name!r} needs the key in {path}: {error.strerror}",
                field="api_key_file",
            ) from None
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env)
    if not key:
        raise ConfigError(
            f"provider {config.name!r} needs the environment variable {mask(config.api_key_env)}",
            field="api_key_env",
        )
    return key
