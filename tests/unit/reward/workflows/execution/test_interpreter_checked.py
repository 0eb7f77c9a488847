"""What the checker lets pass misuses no value when it runs: the two read the language alike."""

import random
from collections import Counter

from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.execution.run import RunEnding
from assay_reward.workflows.language.checker import check_tree
from assay_reward.workflows.operators.support.faults import FaultKind
from tests.support.workflow_programs import ProgramWriter
from tests.support.workflows import FakeExecutor, RunningSandbox, play

WIDE = RunBudgets(
    calls=64, programs=64, depth=64, tokens=10**6, call_s=1, time_s=120
)  # fmt: skip
REPLIES = ("A", "RIGHT: it holds", "WRONG: it does not", "Answer: 3")


async def test_a_checked_program_ends_with_an_answer() -> None:
    endings: Counter[tuple[bool, RunEnding]] = Counter()
    for seed in range(400):
        rng = random.Random(seed)
        tree = ProgramWriter(rng).workflow()
        executor = FakeExecutor(lambda _, rng=rng: rng.choice(REPLIES))  # type: ignore[misc]
        run = await play(tree, executor, RunningSandbox(lambda _: "7"), budgets=WIDE)
        is_valid = check_tree(tree).valid
        if is_valid:
            is_own = run.fault is not None and run.fault.kind is FaultKind.ANSWER
            assert is_own or run.status is RunEnding.ANSWERED, f"{seed}: {run.fault}"
        endings[is_valid, RunEnding.ANSWERED if is_valid else run.status] += 1
    assert endings[True, RunEnding.ANSWERED] > 80, "there is something to compare"
    assert endings[False, RunEnding.FAULT] > 80, "the checker refuses what would fail"
