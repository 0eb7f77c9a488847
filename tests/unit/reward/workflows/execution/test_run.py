"""Runs of workflows: who is at fault, what is never rewarded, and what a trace shows."""

import asyncio
import time

import pytest

from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.execution.executor import OperatorQuestion, OperatorReply
from assay_reward.workflows.execution.run import RunEnding
from assay_reward.workflows.execution.trace import TraceNode, TraceStatus
from assay_reward.workflows.language.tree import (
    Append,
    Assign,
    BooleanValue,
    Branch,
    Break,
    Compared,
    Containment,
    FieldOf,
    If,
    ListValue,
    Loop,
    NumberValue,
    OperatorCall,
    Parallel,
    Return,
    Statement,
    Variable,
    Workflow,
)
from assay_reward.workflows.operators.support.faults import FaultKind
from assay_shared.errors import ExecutorFault, InfrastructureError, Saturated, Unreachable
from assay_shared.types import FailureClass
from tests.support.workflows import (
    DIRECT,
    FakeExecutor,
    answer_with,
    call,
    play,
    text,
    workflow,
)


def in_parallel(*calls: OperatorCall, then: Statement) -> Workflow:
    branches = tuple(Branch(f"b{at}", (), one) for at, one in enumerate(calls))
    return workflow(Parallel(branches), then)


CUSTOM = call("Custom", input="problem", instruction=text("Think."))
#: Each pass doubles a text.
DOUBLING = workflow(
    Assign("a", text("xxxxxxxx")),
    Loop(64, None, None, (Assign("a", text(Variable("a"), Variable("a"))),)),
    Return(Variable("a")),
)


def many(number: int) -> Workflow:
    """A loop of calls, one after another."""
    loop = Loop(number, None, None, (Assign("a", CUSTOM),))
    return workflow(loop, Return(FieldOf("a", "response")))


async def test_an_answer_comes_with_its_cost_and_trace() -> None:
    run = await play(DIRECT, FakeExecutor(lambda _: "6 times 7\nAnswer: 42"))
    assert (run.status, run.answer, run.executor) == (RunEnding.ANSWERED, "42", "first")
    assert (run.cost.calls, run.cost.tokens, run.cost.money) == (1, 15, 0.001)
    assert run.cost.operators == {"AnswerGenerate": 1}
    assert run.cost.operator_cost == 1.0
    (operator,) = run.trace.children
    (model,) = operator.children
    assert (operator.kind, operator.name) == ("operator", "AnswerGenerate")
    assert "What is 6 * 7?" in model.prompt
    assert (model.reply, model.tokens) == ("6 times 7\nAnswer: 42", 15)
    assert len(model.prompt_digest) == 12
    assert run.trace.total_tokens() == run.cost.tokens


async def test_conditions_and_loops_are_evaluated_here() -> None:
    """Also a break, an index, a list, and the two sides of a condition."""
    tree = workflow(
        Assign("a", CUSTOM),
        Assign("said", ListValue(())),
        Loop(
            9,
            "i",
            Compared("<", Variable("i"), NumberValue(5)),
            (
                If(Compared("==", Variable("i"), NumberValue(3)), (Break(),)),
                Append("said", text("n", Variable("i"))),
            ),
        ),
        If(
            Containment(text("n2"), Variable("said")),
            (If(Containment(text("n3"), Variable("said")), (Return(text("three")),)),),
            (Return(text("none")),),
        ),
        Return(text("two: ", Variable("problem"), FieldOf("a", "response"))),
    )
    run = await play(tree, problem="p")
    assert run.trace.reply == "two: pfine"


@pytest.mark.parametrize(
    ("tree", "limits", "kind"),
    [
        (many(4), {"calls": 3}, FaultKind.CALLS),
        (many(4), {"depth": 3}, FaultKind.DEPTH),
        (many(4), {"tokens": 50}, FaultKind.TOKENS),
        (many(999), {"steps": 100, "depth": 50, "calls": 60, "time_s": 900}, FaultKind.STEPS),
        (DOUBLING, {}, FaultKind.TEXT),
        (workflow(Return(Variable("nothing"))), {}, FaultKind.VALUE),
        (workflow(Assign("a", text("x"))), {}, FaultKind.VALUE),
        (workflow(Return(NumberValue(3))), {}, FaultKind.VALUE),
        (answer_with(call("Open", name="problem"), "x"), {}, FaultKind.VALUE),
        (answer_with(CUSTOM, "__class__"), {}, FaultKind.VALUE),
        (
            workflow(If(Compared("<", Variable("problem"), NumberValue(3)), ())),
            {},
            FaultKind.VALUE,
        ),
    ],
)
async def test_a_spent_budget_or_a_misused_value_is_the_workflows_fault(
    tree: Workflow, limits: dict[str, float], kind: FaultKind
) -> None:
    run = await play(tree, budgets=RunBudgets.model_validate(limits))
    assert run.status is RunEnding.FAULT
    assert run.fault is not None
    assert run.fault.kind is kind
    assert run.failure is None
    assert run.answer is None
    assert run.trace.status is TraceStatus.FAULT


async def test_a_run_within_its_budgets_spends_no_more_than_they_say() -> None:
    run = await play(many(3), calls=3, depth=3, tokens=45)
    assert run.status is RunEnding.ANSWERED
    assert (run.cost.calls, run.cost.depth, run.cost.tokens) == (3, 3, 45)


async def test_parallel_calls_are_one_step_of_the_chain() -> None:
    tree = in_parallel(*[CUSTOM] * 6, then=Return(FieldOf("b5", "response")))
    executor = FakeExecutor(delay_s=0.01)
    run = await play(tree, executor, depth=1, parallel=3)
    assert run.status is RunEnding.ANSWERED
    assert run.cost.depth == 1
    assert executor.most_at_once == 3


async def test_branches_share_no_names() -> None:
    inner = (Assign("x", text("inner")),)
    tree = workflow(
        Assign("x", text("outer")),
        Parallel((Branch("a", inner, CUSTOM), Branch("b", (), Variable("x")))),
        Return(text(Variable("x"), Variable("b"), FieldOf("a", "response"))),
    )
    assert (await play(tree)).trace.reply == "outerouterfine"


@pytest.mark.parametrize(
    ("error", "party"),
    [
        (ExecutorFault("planted"), FailureClass.EXECUTOR),
        (Unreachable("planted"), FailureClass.NETWORK),
        (Saturated("planted"), FailureClass.OVERLOAD),
    ],
)
async def test_a_failed_executor_is_a_failure_and_no_outcome(
    error: InfrastructureError, party: FailureClass
) -> None:
    run = await play(DIRECT, FakeExecutor(lambda _: error))
    assert run.status is RunEnding.FAILED
    assert run.failure is not None
    assert run.failure.failure_class is party
    assert run.answer is None
    assert run.fault is None


@pytest.mark.parametrize("reply", ["  \n", "\u200b", "```\n```", "<think>a</think>\n<think>b"])
async def test_an_empty_reply_is_never_an_answer(reply: str) -> None:
    run = await play(DIRECT, FakeExecutor(lambda _: reply))
    assert run.failure is not None
    assert run.failure.failure_class is FailureClass.EXECUTOR


async def test_a_slow_executor_is_a_failure_and_not_the_policys_fault() -> None:
    limits = {"calls": 1, "programs": 0, "depth": 1, "parallel": 1, "call_s": 0.01, "time_s": 0.05}
    budgets = RunBudgets.model_validate(limits)
    run = await play(DIRECT, FakeExecutor(delay_s=5), budgets=budgets)
    assert run.failure is not None
    assert "more than 0.05 s" in run.failure.message
    assert run.trace.children[0].status is TraceStatus.CANCELLED


async def test_a_fallbacks_answer_stands_apart() -> None:
    def fails_second(prompt: str) -> str | ExecutorFault:
        return ExecutorFault("planted") if "fine" in prompt else "fine"

    other = FakeExecutor(lambda _: "from the second", name="second")
    tree = workflow(
        Assign("a", CUSTOM),
        Assign("b", call("Custom", input=FieldOf("a", "response"), instruction=text("Go on."))),
        Return(FieldOf("b", "response")),
    )
    run = await play(tree, FakeExecutor(fails_second, fallback=other))
    assert run.status is RunEnding.FAILED
    assert run.answer is None
    assert run.fallback is not None
    assert (run.fallback.executor, run.fallback.answer) == ("second", "from the second")
    assert len(other.asked) == 2, "the whole workflow runs again, on one executor"
    assert run.cost.calls == 2, "the fallback is not charged to the workflow"


async def test_a_workflows_fault_has_no_fallback() -> None:
    other = FakeExecutor(name="second")
    run = await play(many(9), FakeExecutor(fallback=other), calls=3)
    assert run.status is RunEnding.FAULT
    assert other.asked == []


async def test_the_first_error_cancels_the_other_branches() -> None:
    def says(prompt: str) -> str | ExecutorFault:
        return ExecutorFault("planted") if "bad" in prompt else "fine"

    slow = FakeExecutor(delay_s=30)

    class Both(FakeExecutor):
        async def reply(self, question: OperatorQuestion) -> OperatorReply:
            one = self if "bad" in question.prompt else slow
            return await FakeExecutor.reply(one, question)

    bad = call("Custom", input=text("bad"), instruction=text("x"))
    began = time.monotonic()
    run = await play(in_parallel(CUSTOM, bad, then=Return(text("x"))), Both(says))
    assert time.monotonic() - began < 5
    assert run.status is RunEnding.FAILED
    assert slow.num_at_once == 0, "the slow call was cancelled"
    assert [one.status for one in run.trace.children] == [
        TraceStatus.CANCELLED,
        TraceStatus.FAILED,
    ]


async def test_one_slow_workflow_delays_no_other() -> None:
    slow, quick = FakeExecutor(delay_s=1.0), FakeExecutor()
    began = time.monotonic()
    waiting = asyncio.ensure_future(play(DIRECT, slow))
    runs = await asyncio.gather(*(play(DIRECT, quick) for _ in range(63)))
    took_s = time.monotonic() - began
    assert {one.status for one in runs} == {RunEnding.ANSWERED}
    assert took_s < 0.8
    assert not waiting.done()
    await waiting


async def test_a_loop_without_calls_lets_others_work() -> None:
    """And it ends at its budget of steps."""
    spin = workflow(
        Loop(10**6, None, BooleanValue(True), (Assign("a", text("x")),)), Return(text("x"))
    )
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    run = await play(spin, steps=50_000)
    ticking.cancel()
    assert run.fault is not None
    assert run.fault.kind is FaultKind.STEPS
    assert ticks > 50


async def test_the_same_seed_sends_the_same_requests_in_any_order() -> None:
    tree = in_parallel(*[CUSTOM] * 5, then=Return(text("x")))

    async def seeds(seed: int) -> set[int]:
        executor = FakeExecutor()
        await play(tree, executor, seed=seed)
        return {one.seed for one in executor.asked}

    first = await seeds(1)
    assert first == await seeds(1)
    assert len(first) == 5
    assert not first & await seeds(2)


async def test_a_trace_is_bounded() -> None:
    run = await play(
        many(600), calls=1000, depth=1000, tokens=10**6, steps=10**5, call_s=0.1, time_s=900
    )
    assert run.status is RunEnding.ANSWERED

    def count(node: TraceNode) -> int:
        return 1 + sum(map(count, node.children))

    assert count(run.trace) <= 400
    assert "further parts are not shown" in run.trace.note
    long = await play(DIRECT, FakeExecutor(lambda _: "x" * 30_000))
    assert len(long.trace.model_dump_json()) < 20_000


async def test_failed_requests_and_fallbacks_are_on_the_bill() -> None:
    lost = await play(DIRECT, FakeExecutor(lambda _: ExecutorFault("planted")))
    assert lost.cost.money == 0.001
    other = FakeExecutor(lambda _: "42", name="second")
    run = await play(DIRECT, FakeExecutor(lambda _: "", fallback=other))
    assert run.status is RunEnding.FAILED
    assert run.cost.money == other.money
