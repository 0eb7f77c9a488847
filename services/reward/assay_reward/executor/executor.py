"""The executor: it answers operator calls, each workflow on one model alone.

A reply that is empty, truncated or only reasoning is a failure: the next request has more tokens,
or another seed. When a model gives up, the whole workflow starts again on the next model, since
the answers of two models in one workflow could not be compared with another workflow's.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry
from pydantic import JsonValue

from assay_reward.executor.config import ExecutorConfig, WorkflowBudget
from assay_reward.executor.metrics import ExecutorMetrics
from assay_reward.executor.reading import CompleteReader, CompleteReply
from assay_reward.executor.requests import ExecutorReply, ExecutorRequest
from assay_reward.executor.session import WorkflowFallback, WorkflowSession
from assay_shared.errors import (
    AssayError,
    BudgetExceeded,
    ExecutorFault,
    Overloaded,
)
from assay_shared.providers.call import Bill, ModelCall, OutOfTime
from assay_shared.providers.client import ModelClient, ModelQuestion
from assay_shared.providers.config import ModelConfig, Price
from assay_shared.providers.escalation import Attempt
from assay_shared.providers.state.cache import cache_key
from assay_shared.providers.state.ledger import Usage
from assay_shared.providers.state.state import SharedState, make_shared_state
from assay_shared.runtime.fair_limiter import FairLimiter, LimiterPlace

Result = TypeVar("Result")


class ExecutorBusy(Overloaded):
    """Too many requests to the executor's models are waiting already."""


class ExecutorRefused(ExecutorFault):
    """Every model refused a workflow's request: asking again cannot help."""

    retryable = False


@dataclass(frozen=True)
class ExecutorRun(Generic[Result]):
    """A workflow's result, and the session that carried it out, with its model and spending."""

    result: Result
    session: WorkflowSession


class CallBill(Bill):
    """The bill of a call: it holds a workflow to its tokens, and the service to its limit."""

    def __init__(self, session: WorkflowSession, gate: FairLimiter) -> None:
        super().__init__()
        self.num_requests = 0
        self._session = session
        self._gate = gate
        self._place: LimiterPlace | None = None

    async def enter(self, tokens: int) -> None:
        await self._session.reserve(tokens)
        try:
            self._place = await self._gate.take(self._session.caller, self._session.id)
        except BaseException:
            self._session.release(tokens)
            raise
        self.num_requests += 1
        self._session.spending.num_requests += 1

    def leave(self, tokens: int) -> None:
        assert self._place is not None
        self._gate.leave(self._place)
        self._session.release(tokens)

    def add(self, usage: Usage, price: Price) -> None:
        before = self.money
        super().add(usage, price)
        spending = self._session.spending
        spending.tokens_in += usage.prompt_tokens
        spending.tokens_out += usage.completion_tokens
        spending.cost += self.money - before


class Executor:
    """The models that answer the operator calls of workflows."""

    def __init__(
        self, config: ExecutorConfig, shared: SharedState, registry: CollectorRegistry
    ) -> None:
        self.config = config
        self._shared = shared
        self._clients = [
            ModelClient[CompleteReply](model, shared, config.ceiling) for model in config.models
        ]
        #: One gate for each model: a slow model takes no places from the others.
        self._gates = [
            FairLimiter(config.max_running, config.max_waiting, refusal=ExecutorBusy)
            for _ in config.models
        ]
        self._metrics = ExecutorMetrics(registry)
        self._readers = [CompleteReader(model.name, self._metrics) for model in config.models]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Executor"]:
        """Open the connections and the shared state for the block."""
        async with self._shared.opened():
            for client in self._clients:
                await client.open()
            try:
                yield self
            finally:
                for client in self._clients:
                    await client.close()

    @property
    def open_circuits(self) -> list[str]:
        """Names of the models with an open circuit: not asked now, after repeated failures."""
        return [client.name for client in self._clients if client.is_open]

    def start(
        self, *, caller: str = "", run: str = "", budget: WorkflowBudget | None = None
    ) -> WorkflowSession:
        """Return the session of a new workflow on the first model; its time begins to run."""
        return WorkflowSession(budget or self.config.budget, caller=caller, run=run)

    async def run(
        self,
        session: WorkflowSession,
        workflow: Callable[[WorkflowSession], Awaitable[Result]],
    ) -> ExecutorRun[Result]:
        """Carry a workflow out on the first model that answers all its calls.

        `workflow` is called again from its beginning for each model. A failure of the executor that
        it swallowed is raised here: an answer made without the reply of a model is not an answer.

        Raises:
            AssayError: see `complete`; `to_failure` makes it the sample's failure.
        """
        while True:
            try:
                result = await workflow(session)
                session.raise_end()
                return ExecutorRun(result, session)
            except (WorkflowFallback, AssayError, ExceptionGroup):
                if not isinstance(session.ended_by, WorkflowFallback):
                    session.raise_end()
                    raise
                session = session.restarted()

    async def complete(self, request: ExecutorRequest, session: WorkflowSession) -> ExecutorReply:
        """Return the session's model's reply to a request: complete and never empty.

        Raises:
            WorkflowFallback: the model gave up; the workflow has to start again with
                `session.restarted()`, as `run` does.
            ExecutorFault: the last model gave up (ExecutorRefused: asking again cannot help).
            WorkflowBudgetSpent: the workflow's calls, tokens or time are spent.
            BudgetExceeded: the caller's run has reached the ceiling of costs.
            ExecutorBusy: too many requests wait already.
        """
        model = self.config.models[session.model_index]
        outcome = "gone"  # the caller did not wait
        try:
            number = session.begin_call()
            reply = await self._answer(request, session, model, number)
            outcome = "answered"
            return reply
        except (WorkflowFallback, AssayError) as error:
            if session.ended_by is None:
                session.ended_by = error
                if isinstance(error, WorkflowFallback):
                    self._metrics.fallbacks.labels(model.name).inc()
            outcome = type(session.ended_by).__name__
            raise session.ended_by from None
        finally:
            self._metrics.calls.labels(model.name, outcome).inc()

    async def _answer(
        self, request: ExecutorRequest, session: WorkflowSession, model: ModelConfig, number: int
    ) -> ExecutorReply:
        started = time.monotonic()
        bill = CallBill(session, self._gates[session.model_index])
        call = ModelCall(session.caller, session.run, session.deadline, bill)
        question = self._question(request, session, model, number)
        try:
            async with asyncio.timeout(session.deadline - started):
                answered = await self._clients[session.model_index].ask(question, call)
        except (TimeoutError, OutOfTime):
            raise session.spent("time") from None
        except (BudgetExceeded, ExecutorBusy):
            raise
        except AssayError as error:
            raise self._given_up(session, error) from error
        session.raise_end()  # another branch may have ended it meanwhile
        usage = answered.finding.usage
        if answered.num_requests:
            session.accept(usage.prompt_tokens, usage.completion_tokens)
        else:
            needed = question.num_tokens(question.step)
            session.accept_kept(usage.prompt_tokens, usage.completion_tokens, needed)
        return ExecutorReply(
            text=answered.finding.text,
            tokens_in=usage.prompt_tokens,
            tokens_out=usage.completion_tokens,
            is_estimated=usage.is_estimated,
            seconds=time.monotonic() - started,
            cost=bill.money,
            model=model.name,
            attempts=answered.num_requests,
        )

    def _question(
        self, request: ExecutorRequest, session: WorkflowSession, model: ModelConfig, number: int
    ) -> ModelQuestion[CompleteReply]:
        messages = tuple({"role": one.role, "content": one.content} for one in request.messages)
        max_tokens = min(request.max_tokens, model.max_tokens_limit)
        step = Attempt(max_tokens, request.temperature, request.seed, model.reasoning_effort)
        extra = {"stop": list(request.stop)} if request.stop else {}
        inputs: dict[str, JsonValue] = {
            "messages": [dict(one) for one in messages],
            "stop": [*request.stop],
            # Without a cache, equal calls are separate questions.
            "call": None if self.config.cache else [session.id, number],
        }
        key = cache_key(
            model=model.model,
            revision=model.revision,
            template="executor",
            sampling={"base_url": model.base_url, "step": str(step)},
            inputs=inputs,
        )
        reader = self._readers[session.model_index]
        return ModelQuestion(key, messages, step, reader, extra)

    def _given_up(
        self, session: WorkflowSession, error: AssayError
    ) -> WorkflowFallback | AssayError:
        """Return the end of a session whose model gave up."""
        if time.monotonic() >= session.deadline:
            return session.spent("time")
        model = self.config.models[session.model_index].name
        if session.model_index + 1 < len(self.config.models):
            return WorkflowFallback(model, error)
        kind = ExecutorFault if error.retryable else ExecutorRefused
        history = (*session.failures, f"{model} gave up: {error}")
        return kind("; ".join(history), service="executor", attempts=error.attempts)


def make_executor(
    config: ExecutorConfig, redis_url: str | None, registry: CollectorRegistry
) -> Executor:
    """Return the executor of a configuration; replicas share its state with a `redis_url`.

    Raises:
        ConfigError: a key is missing.
    """
    shared = make_shared_state("executor", redis_url, registry, has_cache=config.cache)
    return Executor(config, shared, registry)
