"""A workflow's run from its tree to its answer, and the record of it."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field, NonNegativeFloat, NonNegativeInt

from assay_reward.workflows.execution.answer import answer_of, has_own_words
from assay_reward.workflows.execution.budgets import RunBudgets, RunUsage
from assay_reward.workflows.execution.executor import WorkflowExecutor
from assay_reward.workflows.execution.interpreter import WorkflowInterpreter
from assay_reward.workflows.execution.retries import retries_within
from assay_reward.workflows.execution.session import RunSession
from assay_reward.workflows.execution.trace import TraceNode, TraceStatus
from assay_reward.workflows.language.tree import Workflow
from assay_reward.workflows.operators.support.faults import FaultKind, WorkflowFault
from assay_reward.workflows.operators.support.operator import Operator
from assay_reward.workflows.operators.support.public_problem import PublicProblem
from assay_reward.workflows.operators.table import OPERATORS
from assay_shared.errors import AssayError, TimedOut, to_failure
from assay_shared.interfaces import Sandbox
from assay_shared.telemetry.tracing import span
from assay_shared.types import Failure
from assay_shared.types.wire import ShownText, Wire


class RunEnding(StrEnum):
    """How a run ended.

    `answered`: with an answer. `fault`: the workflow spent a budget or misused a value, which is
    the policy's fault and has a score. `failed`: the executor, the sandbox or the clock failed,
    and the sample has no score.
    """

    ANSWERED = "answered"
    FAULT = "fault"
    FAILED = "failed"


class RunFault(Wire):
    """A fault of the workflow."""

    #: What was wrong, or which budget was spent.
    kind: FaultKind
    #: For people and the policy.
    message: ShownText


class RunCost(Wire):
    """What a run used. The tokens are those of usable replies and their prompts."""

    calls: NonNegativeInt = 0
    programs: NonNegativeInt = 0
    prompt_tokens: NonNegativeInt = 0
    reply_tokens: NonNegativeInt = 0
    #: The longest chain of calls that wait for each other.
    depth: NonNegativeInt = 0
    steps: NonNegativeInt = 0
    #: The sum of the operators' declared costs.
    operator_cost: NonNegativeFloat = 0.0
    sandbox_cpu_s: NonNegativeFloat = 0.0
    #: In the unit of the executor's prices; failed attempts and fallbacks are included.
    money: NonNegativeFloat = 0.0
    seconds: NonNegativeFloat = 0.0
    #: Calls of each operator, by name.
    operators: dict[str, int] = Field(default={})

    def __add__(self, other: "RunCost") -> "RunCost":
        """Return the cost of two runs, one after the other."""
        both = {
            name: getattr(self, name) + getattr(other, name)
            for name in type(self).model_fields
            if name != "operators"
        }
        operators = Counter(self.operators) + Counter(other.operators)
        return RunCost(**both, operators=dict(sorted(operators.items())))

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.reply_tokens


class FallbackAnswer(Wire):
    """The answer of a run on another executor, after the first one failed. It has no score."""

    #: The name of the other executor.
    executor: str
    #: Its answer; null if it failed too, or the workflow was at fault.
    answer: ShownText | None
    #: The trace of its run.
    trace: TraceNode


class WorkflowRun(Wire):
    """A run of a workflow.

    `answer` is set for the status `answered` alone: what the executor wrote of the returned text.
    """

    status: RunEnding
    answer: ShownText | None = None
    fault: RunFault | None = None
    failure: Failure | None = None
    #: The name of the executor.
    executor: str
    cost: RunCost
    trace: TraceNode
    #: Set if the run failed and the executor has a fallback. Reported, and never rewarded.
    fallback: FallbackAnswer | None = None


async def play_workflow(
    tree: Workflow,
    problem: PublicProblem,
    executor: WorkflowExecutor,
    sandbox: Sandbox,
    budgets: RunBudgets,
    *,
    seed: int = 0,
    operators: Mapping[str, Operator] = OPERATORS,
) -> WorkflowRun:
    """Return a run of the workflow; it raises nothing for a fault or a failure.

    All calls of a run go to one executor. If that fails, the whole workflow runs again on the
    executor's fallback within the same time, and the answer stands in `fallback`, apart from the
    failed run.
    """
    deadline = time.monotonic() + budgets.time_s
    retries = retries_within(tree, operators, budgets)
    session = RunSession(problem, executor, sandbox, RunUsage(budgets), seed, deadline, retries)
    run = again = await _play(tree, session, operators)
    while again.failure is not None and (other := executor.fallback) is not None:
        executor = other
        session = RunSession(problem, other, sandbox, RunUsage(budgets), seed, deadline, retries)
        again = await _play(tree, session, operators)
        fallback = FallbackAnswer(executor=other.name, answer=again.answer, trace=again.trace)
        cost = run.cost.model_copy(update={"money": other.money})
        run = run.model_copy(update={"fallback": fallback, "cost": cost})
    return run


async def _play(
    tree: Workflow, session: RunSession, operators: Mapping[str, Operator]
) -> WorkflowRun:
    began = time.monotonic()
    usage, executor = session.usage, session.executor
    with span("workflow.run", executor=executor.name) as telemetry:
        answer, fault, failure = await _ended(
            WorkflowInterpreter(session, dict(operators)), tree, session
        )
        status = RunEnding.ANSWERED
        if fault is not None:
            status = RunEnding.FAULT
        elif failure is not None:
            status = RunEnding.FAILED
            telemetry.fail(failure.message)
        telemetry.note(status=status.value, calls=usage.calls, tokens=usage.tokens)
    return WorkflowRun(
        status=status,
        answer=answer,
        fault=fault,
        failure=failure,
        executor=executor.name,
        cost=_cost(session, time.monotonic() - began),
        trace=session.trace.frozen(),
    )


async def _ended(
    interpreter: WorkflowInterpreter, tree: Workflow, session: RunSession
) -> tuple[str | None, RunFault | None, Failure | None]:
    """Return the answer, the workflow's fault or the instruments' failure: one of them is set."""
    root, budgets = session.trace.root, session.budgets
    root.prompt = session.problem.text
    try:
        async with asyncio.timeout_at(session.deadline_of_loop()):
            returned = await interpreter.run(tree)
        root.reply = str(returned)
        answer = answer_of(returned)
    except WorkflowFault as fault:
        root.end(TraceStatus.FAULT)
        root.notes.append(fault.message)
        return None, RunFault(kind=fault.kind, message=fault.message), None
    except TimeoutError:
        error: AssayError = TimedOut(
            f"the run of a workflow took more than {budgets.time_s:g} s", service="executor"
        )
    except AssayError as raised:
        error = raised
    else:
        root.end()
        if has_own_words(returned):
            root.notes.append("what the workflow itself wrote in the answer is not scored")
        return answer, None, None
    root.end(TraceStatus.FAILED)
    root.notes.append(str(error))
    return None, None, to_failure(error, "executor")


def _cost(session: RunSession, seconds: float) -> RunCost:
    usage = session.usage
    return RunCost(
        calls=usage.calls,
        programs=usage.programs,
        prompt_tokens=usage.prompt_tokens,
        reply_tokens=usage.reply_tokens,
        depth=usage.depth,
        steps=usage.steps,
        operator_cost=usage.operator_cost,
        sandbox_cpu_s=usage.sandbox_cpu_s,
        money=session.executor.money,
        seconds=seconds,
        operators=dict(sorted(usage.operators.items())),
    )
