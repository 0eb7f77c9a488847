"""Random and hostile trees: each run ends in a verdict, within every budget."""

import gc
import random
import time
import tracemalloc
from collections import Counter

from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.execution.run import RunEnding, WorkflowRun
from assay_reward.workflows.language.tree import (
    AllOf,
    Append,
    Argument,
    Assign,
    BooleanValue,
    Branch,
    Break,
    Compared,
    Containment,
    Expression,
    FieldOf,
    If,
    ListValue,
    Loop,
    Negation,
    NumberValue,
    OperatorCall,
    Parallel,
    RecordValue,
    Return,
    Statement,
    Variable,
    Workflow,
)
from assay_reward.workflows.operators.table import OPERATORS
from assay_shared.errors import ExecutorFault
from assay_shared.types import StdinCase, TestReport, TestRequest
from tests.support.fakes import FakeSandbox
from tests.support.workflows import FakeExecutor, play, text

BUDGETS = RunBudgets(
    calls=12, programs=6, tokens=150, depth=8, parallel=4, steps=400, text_chars=2000, items=16,
    call_s=5, time_s=90,
)  # fmt: skip
NAMES = ("problem", "a", "b", "c", "__class__", "self")
FIELDS = ("response", "answer", "solution", "__dict__", "result")
#: Format strings, code, and what ends a prompt.
TEXTS = ("", "x" * 300, "{0.__class__}", "%s%n", "__import__('os').system('id')", "{{problem}}")


class Trees:
    """Random trees. They keep the language's types half of the time, and none of its limits."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._left = 150  # statements; otherwise the tree itself would take all the time

    def workflow(self) -> Workflow:
        call = OperatorCall(
            "Custom", tuple(Argument(n, text("x")) for n in ("input", "instruction"))
        )
        firsts = (
            Assign("a", text("x")),
            Assign("b", text("y")),
            Assign("c", NumberValue(1)),
            *(Assign("d", call) for _ in range(self._rng.choice((0, 0, 1, 3)))),
        )
        body = self._body(self._rng.choice((1, 3, 6)))
        last = FieldOf("d", "response") if len(firsts) > 3 else self._text()
        return Workflow((*firsts, *body, Return(last)))

    def _body(self, depth: int) -> tuple[Statement, ...]:
        number = self._rng.randint(0, 4) if self._left > 0 else 0
        return tuple(self._statement(depth) for _ in range(number))

    def _statement(self, depth: int) -> Statement:
        rng = self._rng
        self._left -= 1
        depth = depth if self._left > 0 else 0
        kinds = ["assign", "assign", "call", "append", "return", "break"]
        kind = rng.choice(kinds + (["if", "loop", "loop", "parallel"] if depth else []))
        match kind:
            case "call":
                return Assign(rng.choice(NAMES[1:]), self._call())
            case "append":
                return Append(rng.choice(NAMES[1:]), self._text())
            case "return":
                return If(self._condition(), (Return(self._text()),))
            case "break":
                return If(self._condition(), (Break(),))
            case "if":
                return If(self._condition(), self._body(depth - 1), self._body(depth - 1))
            case "loop":
                condition = rng.choice((None, BooleanValue(True), self._condition()))
                return Loop(rng.choice((1, 3, 10**9)), "c", condition, self._body(depth - 1))
            case "parallel":
                return Parallel(
                    tuple(
                        Branch(
                            rng.choice(NAMES[1:]),
                            self._body(depth - 1),
                            rng.choice((self._call(), self._expression())),
                        )
                        for _ in range(rng.choice((2, 3, 40)))
                    )
                )
        return Assign(rng.choice(NAMES[1:]), self._expression())

    def _call(self) -> OperatorCall:
        name = self._rng.choice([*OPERATORS, "Open", "__init__"])
        wanted = OPERATORS[name].signature.parameters if name in OPERATORS else {"x": None}
        arguments = tuple(Argument(one, self._expression()) for one in wanted)
        return OperatorCall(name, arguments)

    def _text(self) -> Expression:
        name = Variable(self._rng.choice(NAMES[:4]))
        return text(self._rng.choice(TEXTS) or "y", name, "-", name)

    def _expression(self) -> Expression:
        rng = self._rng
        return rng.choice(
            (
                self._text(),
                self._text(),
                Variable(rng.choice(NAMES)),
                FieldOf(rng.choice(NAMES), rng.choice(FIELDS)),
                ListValue((self._text(), self._text())),
                NumberValue(rng.choice((0, 1.5, 10**30))),
                RecordValue((Argument("response", self._text()),)),
                self._condition(),
            )
        )

    def _condition(self) -> Expression:
        rng = self._rng
        return rng.choice(
            (
                BooleanValue(rng.random() < 0.5),
                Compared(rng.choice(("==", "<", ">=")), Variable("c"), NumberValue(2)),
                Containment(text("x"), Variable(rng.choice(NAMES))),
                Negation(BooleanValue(True)),
                AllOf((BooleanValue(True), Compared("!=", Variable("problem"), text("p")))),
            )
        )


class FailingSandbox(FakeSandbox):
    """Passes no public test."""

    async def test(self, request: TestRequest) -> TestReport:
        return await super().test(request.model_copy(update={"code": "pass 0"}))


async def play_one(seed: int, tree: Workflow | None = None) -> WorkflowRun:
    rng = random.Random(seed)
    broken = rng.random() < 0.3
    executor = FakeExecutor(
        lambda _: ExecutorFault("planted") if broken and rng.random() < 0.3 else rng.choice("AB?9")
    )
    cases = (StdinCase(stdin="", expected_stdout="1"),)
    tree = tree or Trees(seed).workflow()
    run = await play(tree, executor, FailingSandbox(), cases=cases, budgets=BUDGETS)
    assert executor.most_at_once <= BUDGETS.parallel
    return run


async def test_each_random_tree_ends_in_a_verdict_within_its_budgets() -> None:
    endings: Counter[RunEnding] = Counter()
    for seed in range(600):
        tree = Trees(seed).workflow()
        began = time.process_time()
        run = await play_one(seed, tree)
        assert time.process_time() - began < 10, seed
        cost = run.cost
        assert cost.calls <= BUDGETS.calls
        assert cost.programs <= BUDGETS.programs
        assert cost.depth <= BUDGETS.depth
        assert cost.steps <= BUDGETS.steps
        assert cost.tokens <= BUDGETS.tokens + BUDGETS.parallel * 15
        assert len(run.answer or "") <= BUDGETS.text_chars
        assert sum(x is not None for x in (run.answer, run.fault, run.failure)) == 1, seed
        endings[run.status] += 1
    assert min(endings[one] for one in RunEnding) > 10, endings


async def test_memory_does_not_grow_with_the_number_of_runs() -> None:
    trees = [Trees(seed).workflow() for seed in range(80)]
    for seed, tree in enumerate(trees):
        await play_one(seed, tree)
    gc.collect()
    tracemalloc.start()
    try:
        for seed, tree in enumerate(trees):
            await play_one(seed, tree)
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 2**18


async def test_a_tree_deeper_than_any_source_is_a_fault() -> None:
    body: tuple[Statement, ...] = (Return(text("x")),)
    for _ in range(500):
        body = (If(BooleanValue(True), body),)
    run = await play(Workflow(body))
    assert run.fault is not None
    assert "nested" in run.fault.message
