"""Measures the own time of an operator: 64 workflows at once against an executor that is instant.

    python -m bench.workflow_runs --output bench/results/workflow_runs.json

Each workflow has 12 operators, in a loop and in parallel branches. `in_memory` is the interpreter
alone, with an executor that returns at once. `over_http` is the executor of the reward service,
with its limits and its ledger, against an endpoint in another process that answers at once. The
time is that of the clock over all operators, since one event loop does all the work.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from assay_reward.executor.config import ExecutorConfig
from assay_reward.executor.executor import make_executor
from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.execution.executor import (
    OperatorQuestion,
    OperatorReply,
    WorkflowExecutor,
)
from assay_reward.workflows.execution.model_sessions import SessionExecutor
from assay_reward.workflows.execution.run import RunEnding, play_workflow
from assay_reward.workflows.language.source import WorkflowForm, check_source
from assay_reward.workflows.operators.support.public_problem import PublicProblem
from assay_shared.runtime.processes import end
from tests.support.fakes import FakeSandbox
from tests.support.upstream import says

_SOURCE = """
solutions = []
repeat 3
  found = AnswerGenerate(input=problem)
  solutions += found.answer
end
parallel
  a = Custom(input=problem, instruction="Think again.")
  b = Custom(input=problem, instruction="Be short.")
  c = Review(problem=problem, solution=found.answer)
  d = Revise(problem=problem, solution=found.answer, feedback="Be exact.")
end
repeat 4
  short = Format(problem=problem, solution=a.response)
end
best = ScEnsemble(problem=problem, solutions=[a.response, "other"])
return best.response
"""
_OPERATORS = 12
_BUDGETS = RunBudgets(depth=16, time_s=300.0)


class InstantExecutor:
    """Returns one reply at once. Implements `WorkflowExecutor`."""

    name = "instant"
    money = 0.0
    fallback: WorkflowExecutor | None = None

    async def reply(self, question: OperatorQuestion) -> OperatorReply:
        await asyncio.sleep(0)
        return OperatorReply("Answer: A", 100, 20, model="instant")


async def measure(num: int, rounds: int, begin: Callable[[], WorkflowExecutor]) -> float:
    """Return the milliseconds per operator of the best round of `num` workflows at once."""
    tree = check_source(_SOURCE, WorkflowForm.TEXT).or_refuse()
    problem, took = PublicProblem("What is 6 * 7?" * 20), []
    for _ in range(rounds):
        began = time.perf_counter()
        runs = await asyncio.gather(
            *(
                play_workflow(tree, problem, begin(), FakeSandbox(), _BUDGETS, seed=seed)
                for seed in range(num)
            )
        )
        took.append(time.perf_counter() - began)
        assert {run.status for run in runs} == {RunEnding.ANSWERED}, runs[0].failure
        assert {sum(run.cost.operators.values()) for run in runs} == {_OPERATORS}
    return 1000 * min(took) / (num * _OPERATORS)


async def over_http(num: int, rounds: int, url: str) -> float:
    """Return the same over the executor of the reward service."""
    model = {"name": "instant", "base_url": f"{url}/v1", "model": "m"}
    config = ExecutorConfig.model_validate({"models": [model], "max_running": 256})
    async with make_executor(config, None, CollectorRegistry()).opened() as executor:
        return await measure(num, rounds, lambda: SessionExecutor.begin(executor, _BUDGETS))


@contextmanager
def endpoint(folder: Path) -> Iterator[str]:
    """Run an endpoint with one reply in another process; yield its address."""
    (folder / "reply.json").write_text(json.dumps(says("Answer: A")))
    command = [sys.executable, "bench/instant_upstream.py", "--reply", str(folder / "reply.json")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://[^/\s]+", process.stdout.readline())
        assert found is not None
        yield found[0]
    finally:
        end([process], 5)  # type: ignore[list-item]  # its text mode does not matter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workflows", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    num, rounds = options.workflows, options.rounds
    found = {"in_memory_ms": asyncio.run(measure(num, rounds, InstantExecutor))}
    with tempfile.TemporaryDirectory() as folder, endpoint(Path(folder)) as url:
        found["over_http_ms"] = asyncio.run(over_http(num, rounds, url))
    result = {"workflows": num, "operators_each": _OPERATORS, **found}
    print(json.dumps(result, indent=2))
    if options.output:
        options.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
