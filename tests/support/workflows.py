"""Executors under the test's orders, and trees in few words."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from assay_reward.instruments import Instruments
from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.execution.executor import (
    OperatorQuestion,
    OperatorReply,
    WorkflowExecutor,
)
from assay_reward.workflows.execution.run import WorkflowRun, play_workflow
from assay_reward.workflows.language.tree import (
    Argument,
    Assign,
    Expression,
    FieldOf,
    OperatorCall,
    Return,
    Statement,
    TextValue,
    Variable,
    Workflow,
)
from assay_reward.workflows.operators.support.public_problem import PublicProblem
from assay_reward.workflows.playing.player import WorkflowPlayer
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import AssayError
from assay_shared.interfaces import Judge, Sandbox
from assay_shared.types import (
    EnvironmentTask,
    ExecutionRequest,
    ExecutionResult,
    Status,
    Task,
    TestCase,
)
from tests.support.fakes import FakeJudge, FakeSandbox, make_task
from tests.support.reward.measuring import WORKERS

Said = str | AssayError


class FakeExecutor:
    """Replies as a function of the prompt says, an error is raised; `asked` has all questions."""

    def __init__(
        self,
        says: Callable[[str], Said] = lambda _: "fine",
        *,
        name: str = "first",
        fallback: WorkflowExecutor | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self.name = name
        self.fallback: WorkflowExecutor | None = fallback
        self.asked: list[OperatorQuestion] = []
        self.money = 0.0
        self.num_at_once = 0
        self.most_at_once = 0
        self.is_asked = asyncio.Event()
        self._says = says
        self._delay_s = delay_s

    async def reply(self, question: OperatorQuestion) -> OperatorReply:
        self.asked.append(question)
        self.is_asked.set()
        self.num_at_once += 1
        self.most_at_once = max(self.most_at_once, self.num_at_once)
        try:
            await asyncio.sleep(self._delay_s)
        finally:
            self.num_at_once -= 1
        self.money += 0.001
        said = self._says(question.prompt)
        if isinstance(said, AssayError):
            raise said
        return OperatorReply(said, 10, 5, money=0.001, model=self.name)


class RunningSandbox(FakeSandbox):
    """Prints what a function of the program says; None is a program that fails."""

    def __init__(self, prints: Callable[[str], str | None]) -> None:
        super().__init__()
        self.programs: list[str] = []
        self._prints = prints

    async def execute(self, request: ExecutionRequest) -> ExecutionResult:
        self.programs.append(request.code)
        printed = self._prints(request.code)
        if printed is None:
            return ExecutionResult(
                status=Status.RUNTIME_ERROR, stderr="planted error", isolation="fake"
            )
        return ExecutionResult(
            status=Status.ACCEPTED, stdout=printed, cpu_time_s=0.5, isolation="fake"
        )


def text(*parts: str | Variable | FieldOf) -> TextValue:
    return TextValue(parts)


def call(operator: str, **arguments: Expression | str) -> OperatorCall:
    """Return a call; a mere string is the name of a variable."""
    return OperatorCall(
        operator,
        tuple(
            Argument(name, Variable(value) if isinstance(value, str) else value)
            for name, value in arguments.items()
        ),
    )


def workflow(*body: Statement) -> Workflow:
    return Workflow(body)


def answer_with(operator: OperatorCall, field: str) -> Workflow:
    """Return the workflow of one call, whose answer is a field of the result."""
    return workflow(Assign("found", operator), Return(FieldOf("found", field)))


DIRECT = answer_with(call("AnswerGenerate", input="problem"), "answer")


async def play(
    tree: Workflow,
    executor: WorkflowExecutor | None = None,
    sandbox: Sandbox | None = None,
    *,
    problem: str = "What is 6 * 7?",
    cases: Sequence[TestCase] = (),
    seed: int = 0,
    budgets: RunBudgets | None = None,
    **limits: float,
) -> WorkflowRun:
    """Return a run; `limits` are budgets by their names."""
    return await play_workflow(
        tree,
        PublicProblem(problem, cases=tuple(cases)),
        executor or FakeExecutor(),
        sandbox or FakeSandbox(),
        budgets or RunBudgets.model_validate(limits),
        seed=seed,
    )


#: Workflows in text form: valid, with a slip that can be repaired, and with none that can.
ONE_CALL = "found = AnswerGenerate(input=problem)\nreturn found.answer"
MISSPELT = ONE_CALL.replace("AnswerGenerate", "answer_generate")
INVALID = "found = AnswerGenerate(input=nothing)\nreturn found.answer"
ENDLESS = """
repeat 16
  found = AnswerGenerate(input=problem)
end
return "done"
"""
EDITED = """
found = AnswerGenerate(input=problem)
short = Format(problem=problem, solution=found.answer)
return short.solution
"""


def make_workflow_task(task_id: str = "w", max_turns: int = 1, **changes: Any) -> Task:
    """A problem of arithmetic in the environment `workflow`; `changes` are of the instance."""
    instance = {"problem": "What is 6 * 7?", "rubric": "math"} | changes
    return make_task(
        task_id,
        prompt="Write a workflow for: What is 6 * 7?",
        rubric="workflow",
        gold=ONE_CALL,
        reference="42",
        tests=(),
        environment=EnvironmentTask(name="workflow", instance=instance, max_turns=max_turns),
    )


def make_instruments(
    executor: WorkflowExecutor, judge: Judge | None = None, sandbox: Sandbox | None = None
) -> Instruments:
    """Return instruments whose workflows run on this executor."""
    used = sandbox or FakeSandbox()
    return Instruments(
        used,
        judge or FakeJudge(),
        Symbolic(5.0, WORKERS),
        workers=WORKERS,
        workflows=WorkflowPlayer(lambda budgets, run: executor, used),
    )
