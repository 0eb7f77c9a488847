"""The service's executor as a run uses it: one session, and so one model, for a whole workflow."""

from typing import Final

from assay_reward.executor.config import WorkflowBudget
from assay_reward.executor.executor import Executor
from assay_reward.executor.requests import ExecutorRequest
from assay_reward.executor.session import WorkflowFallback, WorkflowSession
from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.execution.executor import OperatorQuestion, OperatorReply
from assay_shared.errors import ExecutorFault
from assay_shared.types import Message

#: The session also pays for failed requests and for the models after the first one. This many
#: times the run's own budgets are for all of that; a run that needs more has bad instruments.
_SPARE: Final = 8


class SessionExecutor:
    """A workflow's session; implements `WorkflowExecutor`.

    `RunBudgets` holds the workflow to its own calls and tokens. The budget of the session also
    counts the retries of a model. A workflow is not at fault if it is spent.
    """

    def __init__(self, executor: Executor, session: WorkflowSession) -> None:
        self._executor = executor
        self._session = session

    @classmethod
    def begin(
        cls, executor: Executor, budgets: RunBudgets, *, caller: str = "", run: str = ""
    ) -> "SessionExecutor":
        """Return the executor of a new run on the first model.

        The smaller limit holds: that of the run's budgets, or that of `executor.yaml`.
        """
        most = len(executor.config.models)
        given = executor.config.budget
        in_flight = budgets.reply_tokens + budgets.text_chars
        budget = WorkflowBudget(
            max_calls=min(given.max_calls, budgets.calls * most),
            max_tokens=min(
                given.max_tokens, _SPARE * most * (budgets.tokens + budgets.parallel * in_flight)
            ),
            timeout_s=min(given.timeout_s, budgets.time_s),
        )
        return cls(executor, executor.start(caller=caller, run=run, budget=budget))

    @property
    def name(self) -> str:
        """The name of the session's model in `executor.yaml`."""
        return self._executor.config.models[self._session.model_index].name

    @property
    def money(self) -> float:
        """Implement `WorkflowExecutor.money`; the next model continues the same bill."""
        return self._session.spending.cost

    @property
    def fallback(self) -> "SessionExecutor | None":
        """The next model, after this one gave up; it has the rest of the run's time."""
        if not isinstance(self._session.ended_by, WorkflowFallback):
            return None
        return SessionExecutor(self._executor, self._session.restarted())

    async def reply(self, question: OperatorQuestion) -> OperatorReply:
        """Implement `WorkflowExecutor.reply`.

        Raises:
            ExecutorFault: the model gave up.
            AssayError: see `Executor.complete`.
        """
        request = ExecutorRequest(
            messages=(Message(role="user", content=question.prompt),),
            max_tokens=question.max_tokens,
            temperature=question.temperature,
            seed=question.seed,
        )
        try:
            found = await self._executor.complete(request, self._session)
        except WorkflowFallback as error:
            raise ExecutorFault(
                str(error), service="executor", attempts=error.reason.attempts
            ) from error
        return OperatorReply(
            found.text,
            found.tokens_in,
            found.tokens_out,
            money=found.cost,
            model=found.model,
            attempts=found.attempts,
            is_estimated=found.is_estimated,
        )
