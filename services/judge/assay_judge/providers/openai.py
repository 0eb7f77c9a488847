"""A provider that asks an OpenAI-compatible chat endpoint until it gets a readable reply."""

import asyncio
import os
import random
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, NamedTuple

from assay_judge.config import OpenAIProviderConfig
from assay_judge.forms.forms import JudgePrompt, ParsedReply
from assay_judge.providers.breaker import Breaker, BreakerOpen
from assay_judge.providers.endpoint import ChatEndpoint, Declined, EndpointReply, RefusedContent
from assay_judge.providers.escalation import Attempt
from assay_judge.providers.parse import Truncated, UnreadableReply, read_reply, read_text
from assay_judge.providers.provider import JudgeCall
from assay_judge.providers.qualification import Qualification
from assay_judge.providers.usage import estimate_prompt
from assay_judge.state.cache import cache_key
from assay_judge.state.limits import MAX_PAUSE_S
from assay_judge.state.state import SharedState
from assay_shared.clients import Timeouts
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import (
    AssayError,
    BudgetExceeded,
    CallerError,
    ConfigError,
    JudgeFault,
    Overloaded,
    TimedOut,
)
from assay_shared.runtime.single_flight import SingleFlight
from assay_shared.telemetry.tracing import span
from assay_shared.types import JudgeForm, JudgeRequest

#: `service` of an error of the shared state: it is not the provider's fault.
_SHARED = "redis"
_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.1, 5.0
_OVER = "the time for this group is over"
#: The event loop's timer may fire this early.
_TICK_S = 0.005
#: Distance between the seeds of two votes: more than one vote's retries use.
_SEEDS_A_VOTE = 1000


class ProviderRefused(JudgeFault):
    """The endpoint refused the request: asking again cannot help."""

    retryable = False


class Answered(NamedTuple):
    """A reply's text, and its finding as read for the first caller.

    Other callers of the same prompt read the text with their own prompt's reader.
    """

    text: str
    finding: ParsedReply


class OutOfTime(TimedOut):
    """The time of the caller's group is over."""


class TooManyTokens(JudgeFault):
    """The endpoint refused a request with a raised `max_tokens`, perhaps because of it."""


class OpenAIProvider:
    """A model behind a chat endpoint. Implements `assay_judge.providers.provider.Provider`."""

    forms = frozenset(JudgeForm)
    has_prompt = True

    def __init__(
        self, config: OpenAIProviderConfig, shared: SharedState, ceiling: float | None
    ) -> None:
        self.name = config.name
        self._config = config
        self._shared = shared
        self._ceiling = ceiling
        self._qualification = (
            Qualification(config.requirement, config.name) if config.requirement else None
        )
        self._paused_until = 0.0
        self._breaker = Breaker(config.open_after, config.cooldown_s)
        shared.metrics.watch(self.name, lambda: self.is_open)
        #: Callers of the same prompt share its text; each reads it with its own order of answers.
        self._flights: SingleFlight[Answered] = SingleFlight()
        self._endpoint = ChatEndpoint(
            config.base_url,
            token=_key(config),
            timeouts=Timeouts(read_s=config.timeout_s, total_s=config.timeout_s),
            retry=NO_RETRY,
        )
        self._endpoint.served_as = config.served_as

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

    async def find(
        self, request: JudgeRequest, index: int, ask: JudgePrompt, asking: JudgeCall
    ) -> ParsedReply:
        """Implement `Provider.find`; a prompt in flight or in the cache is not sent again."""
        if self._qualification is not None:
            self._qualification.check(ask.template, request.domain or None)
        step = self._first_step(asking.vote)
        key = cache_key(
            model=self._config.model,
            revision=self._config.revision,
            template=ask.template,
            sampling={
                "base_url": self._config.base_url,
                "step": str(step),
                "structured": self._config.structured,
            },
            inputs={"prompt": ask.prompt},
        )
        text = await self._shared.cache.get(key)
        if text is not None:
            return read_text(text, ask)
        return await self._share(key, step, ask, asking)

    async def _share(
        self, key: str, step: Attempt, ask: JudgePrompt, asking: JudgeCall
    ) -> ParsedReply:
        """Return the finding of the same request in flight, or send the request."""
        is_first = False

        def work() -> Coroutine[Any, Any, Answered]:
            nonlocal is_first
            is_first = True
            return self._ask_until_read(key, step, ask, asking)

        while True:
            try:
                answered = await self._flights.run(key, work)
                return answered.finding if is_first else read_text(answered.text, ask)
            except (BudgetExceeded, OutOfTime):
                if is_first:
                    raise
                # The first caller had no more time or money. This caller may have both.

    def _first_step(self, vote: int) -> Attempt:
        config = self._config
        step = Attempt(config.max_tokens, config.temperature, config.seed, config.reasoning_effort)
        return step.reseeded(_SEEDS_A_VOTE * vote) if vote else step

    async def _ask_until_read(
        self, key: str, step: Attempt, ask: JudgePrompt, asking: JudgeCall
    ) -> Answered:
        history: list[str] = []
        following: Attempt | None = step
        retryable = True
        while following is not None:
            step = following
            try:
                return await self._ask_and_read(key, step, ask, asking)
            except (BudgetExceeded, OutOfTime):
                raise
            except AssayError as error:
                history.append(f"{step}: {error}")
                retryable = error.retryable
                following = await self._after(error, step, len(history), asking)
        kind = JudgeFault if retryable else ProviderRefused
        raise kind("; ".join(history), attempts=len(history))

    async def _ask_and_read(
        self, key: str, step: Attempt, ask: JudgePrompt, asking: JudgeCall
    ) -> Answered:
        reply = await self._ask_once(step, ask, asking)
        finding = read_reply(reply, ask)
        self._breaker.succeeded()
        await self._shared.cache.put(key, reply.text)
        return Answered(reply.text, finding)

    async def _after(
        self, error: AssayError, step: Attempt, number: int, asking: JudgeCall
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
            return replace(step.reseeded(), max_tokens=self._config.max_tokens)
        if isinstance(error, Truncated):
            return step.with_more_tokens(self._config.max_tokens_limit)
        if isinstance(error, JudgeFault):
            return step.reseeded()
        return step if await self._rest(error.retry_after_s, number, asking) else None

    async def _rest(self, asked_s: float | None, number: int, asking: JudgeCall) -> bool:
        """Wait before the next try. Return False, without waiting, if the deadline is too close."""
        backoff_s = min(_FIRST_BACKOFF_S * 2 ** (number - 1), _MAX_BACKOFF_S)
        wait_s = max(asked_s or 0.0, backoff_s * random.uniform(0.5, 1.0))
        if time.monotonic() + wait_s > asking.deadline:
            return False
        await asyncio.sleep(wait_s)
        return True

    async def _ask_once(self, step: Attempt, ask: JudgePrompt, asking: JudgeCall) -> EndpointReply:
        """Send one request, within all limits, charge it, and return its reply.

        Raises:
            BudgetExceeded: the run of this caller has reached its ceiling.
            Overloaded: the endpoint or one of our limits has no room now.
            ProviderRefused: the endpoint refused the request for good.
            TooManyTokens: the endpoint refused a request with a raised `max_tokens`.
            BreakerOpen: the circuit is open.
            OutOfTime: the time of the group is over.
        """
        ledger = self._shared.ledger
        await ledger.check(asking.run, asking.caller, self._ceiling)
        tokens = estimate_prompt(ask.prompt) + step.max_tokens
        async with self._shared.limiter.admit(
            self.name, self._config.limits, tokens, asking.caller, _left_s(asking)
        ) as grant:
            self._breaker.enter()
            try:
                reply = await self._complete(step, ask, asking)
            except Overloaded as error:
                self._breaker.left()
                await self._pause(error.retry_after_s or 1.0)
                raise
            except CallerError as error:
                if step.max_tokens > self._config.max_tokens:
                    raise TooManyTokens(str(error)) from error
                if isinstance(error, RefusedContent):
                    self._breaker.left()
                else:
                    self._breaker.failed()
                raise ProviderRefused(str(error)) from error
            except BaseException:
                self._breaker.left()
                raise
            usage = reply.usage
            grant.settle(usage.prompt_tokens + usage.completion_tokens)
            asking.bill.add(usage, self._config.price)
            self._shared.metrics.charge(self.name, usage, self._config.price)
            await ledger.charge(asking.run, asking.caller, self.name, usage, self._config.price)
            return reply

    async def _complete(self, step: Attempt, ask: JudgePrompt, asking: JudgeCall) -> EndpointReply:
        """Ask the endpoint, for at most the rest of the group's time."""
        extra, left_s = self._extra(ask), _left_s(asking)
        try:
            with (
                span("judge.call", provider=self.name, model=self._config.model),
                self._shared.metrics.request(self.name),
            ):
                return await self._endpoint.complete(
                    self._config.model, ask.prompt, step, extra, left_s
                )
        except TimedOut as error:
            if time.monotonic() < asking.deadline - _TICK_S:
                raise
            raise OutOfTime(_OVER) from error

    async def _pause(self, seconds: float) -> None:
        pause_s = min(seconds, MAX_PAUSE_S)
        self._paused_until = max(self._paused_until, time.monotonic() + pause_s)
        await self._shared.limiter.pause(self.name, pause_s)

    def _extra(self, ask: JudgePrompt) -> dict[str, Any]:
        if not self._config.structured:
            return dict(self._config.extra_body)
        schema = {"name": "reply", "strict": True, "schema": ask.schema}
        constraint = {"response_format": {"type": "json_schema", "json_schema": schema}}
        return constraint | self._config.extra_body


def _left_s(asking: JudgeCall) -> float:
    """Return the seconds left of the group's time. Raises OutOfTime if none are."""
    left_s = asking.deadline - time.monotonic()
    if left_s <= 0:
        raise OutOfTime(_OVER)
    return left_s


def _key(config: OpenAIProviderConfig) -> str | None:
    if config.api_key_file is not None:
        try:
            return config.api_key_file.read_text().strip()
        except OSError as error:
            raise ConfigError(
                f"provider {config.name!r} needs the key in {config.api_key_file}: {error.strerror}"
            ) from None
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env)
    if not key:
        raise ConfigError(
            f"provider {config.name!r} needs the environment variable {config.api_key_env}"
        )
    return key
