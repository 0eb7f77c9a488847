"""A workflow's session with the executor: its model, its budget, and how it ended."""

import asyncio
import time
import uuid
from dataclasses import dataclass
from typing import Literal

from assay_reward.executor.config import WorkflowBudget
from assay_shared.errors import AssayError, BudgetExceeded

Limit = Literal["calls", "tokens", "time"]


class WorkflowBudgetSpent(BudgetExceeded):
    """A workflow's budget on calls, tokens or time is spent.

    `is_own` is True if the workflow would have spent it without any failure of a model: its own
    calls on the present model, or the tokens of their complete replies, reach the limit.
    """

    def __init__(
        self,
        message: str,
        *,
        limit: Limit = "calls",
        is_own: bool = False,
        field: str | None = None,
        hint: str | None = None,
        service: str | None = "executor",
        retry_after_s: float | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(
            message,
            field=field,
            hint=hint,
            service=service,
            retry_after_s=retry_after_s,
            attempts=attempts,
        )
        self.limit: Limit = limit
        self.is_own = is_own

    def _details(self) -> dict[str, object]:
        return super()._details() | {"limit": self.limit, "is_own": self.is_own}


class WorkflowFallback(Exception):
    """The session's model gave up: the whole workflow has to start again on the next model.

    It is not an AssayError, so that a handler of an operator's failures lets it pass.
    """

    def __init__(self, model: str, reason: AssayError) -> None:
        super().__init__(f"{model} gave up: {reason}")
        self.model = model
        self.reason = reason


@dataclass
class WorkflowSpending:
    """What a workflow has used, on all its models."""

    #: Calls of operators.
    num_calls: int = 0
    #: Requests to models, failed ones included.
    num_requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    #: Money, in the currency of the prices.
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


class WorkflowSession:
    """A workflow on one model: `model_index` counts the models of `executor.yaml` from 0.

    All operators of a workflow, in all its branches, call the executor with the same session. The
    first failure ends the session: every further call raises it again. `restarted` returns the
    session of the same workflow on the next model, with what is left of the budget.
    """

    def __init__(
        self,
        budget: WorkflowBudget,
        *,
        caller: str = "",
        run: str = "",
        started: float | None = None,
        spending: WorkflowSpending | None = None,
        model_index: int = 0,
        failures: tuple[str, ...] = (),
    ) -> None:
        self.id = uuid.uuid4().hex
        self.budget = budget
        self.caller = caller
        self.run = run
        self.model_index = model_index
        #: Reasons why the earlier models gave up.
        self.failures = failures
        self.started = time.monotonic() if started is None else started
        self.deadline = self.started + budget.timeout_s
        self.spending = WorkflowSpending() if spending is None else spending
        #: The first failure: a WorkflowFallback, or an AssayError that ends the workflow.
        self.ended_by: WorkflowFallback | AssayError | None = None
        self._num_own_calls = 0
        self._own_tokens = 0
        self._reserved = 0
        self._freed = asyncio.Event()

    @property
    def is_fallback(self) -> bool:
        """True if the workflow does not run on the first model: its answer is not rewarded."""
        return self.model_index > 0

    def restarted(self) -> "WorkflowSession":
        """Return the session of the whole workflow on the next model."""
        reason = self.ended_by
        if not isinstance(reason, WorkflowFallback):
            raise ValueError("only a session ended by a WorkflowFallback starts again")
        return WorkflowSession(
            self.budget,
            caller=self.caller,
            run=self.run,
            started=self.started,
            spending=self.spending,
            model_index=self.model_index + 1,
            failures=(*self.failures, str(reason)),
        )

    def begin_call(self) -> int:
        """Count a call; return its number, from 1.

        Raises:
            WorkflowFallback, AssayError: the session has ended.
            WorkflowBudgetSpent: no call, or no time, is left.
        """
        self.raise_end()
        if time.monotonic() >= self.deadline:
            raise self.spent("time")
        if self.spending.num_calls >= self.budget.max_calls:
            raise self.spent("calls", is_own=self._num_own_calls >= self.budget.max_calls)
        self.spending.num_calls += 1
        self._num_own_calls += 1
        return self.spending.num_calls

    def raise_end(self) -> None:
        """Raise the failure that has ended the session, if one has."""
        if self.ended_by is not None:
            raise self.ended_by

    def spent(self, limit: Limit, *, is_own: bool = False) -> WorkflowBudgetSpent:
        """Return the error for a limit that is reached."""
        budget = self.budget
        allowed = {
            "calls": f"{budget.max_calls} calls",
            "tokens": f"{budget.max_tokens} tokens",
            "time": f"{budget.timeout_s:g} s",
        }[limit]
        return WorkflowBudgetSpent(
            f"the workflow's budget of {allowed} is spent", limit=limit, is_own=is_own
        )

    async def reserve(self, tokens: int) -> None:
        """Wait until up to `tokens` more fit the budget, with all requests in flight.

        Raises:
            WorkflowBudgetSpent: the request does not fit, even alone.
        """
        limit = self.budget.max_tokens
        while self.spending.tokens + self._reserved + tokens > limit:
            if not self._reserved:
                raise self.spent("tokens", is_own=self._own_tokens + tokens > limit)
            await self._freed.wait()
        self._reserved += tokens

    def release(self, tokens: int) -> None:
        """End a reservation; the tokens that were used are in `spending`."""
        self._reserved -= tokens
        freed, self._freed = self._freed, asyncio.Event()
        freed.set()

    def accept(self, tokens_in: int, tokens_out: int) -> None:
        """Count the tokens of a complete reply as the workflow's own."""
        self._own_tokens += tokens_in + tokens_out

    def accept_kept(self, tokens_in: int, tokens_out: int, needed: int) -> None:
        """Count a reply from the cache like a new one, whose request needs up to `needed` tokens.

        What a workflow may do thus does not depend on the workflows before it.

        Raises:
            WorkflowBudgetSpent: a new request would not fit the budget.
        """
        limit = self.budget.max_tokens
        if self.spending.tokens + needed > limit:
            raise self.spent("tokens", is_own=self._own_tokens + needed > limit)
        self.spending.tokens_in += tokens_in
        self.spending.tokens_out += tokens_out
        self.accept(tokens_in, tokens_out)
