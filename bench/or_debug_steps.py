"""Measures environment steps a second of the model-repair environment, at 20, 50 and 100
variables, LP and MIP (a tenth of the variables are integers).

It calls the core function, by the CPU time of a single process, and the HTTP API, by the clock: a
reward service with a single solver process, eight episodes side by side. The steps ask the solver
for something new: no model is played twice, so the memory of states only serves as much as in a
real episode.

    python bench/or_debug_steps.py --output bench/results/or_debug_steps.json
"""

import argparse
import asyncio
import itertools
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

from assay_reward.or_debug.episode.episode import Episodes
from assay_reward.or_debug.models.iis import irreducible
from assay_reward.or_debug.models.instance import Instance, SetRow
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel
from assay_reward.or_debug.models.solver import solve
from assay_shared.clients import RewardClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.types import EnvironmentTask, Role, StepRequest, Task

SIZES = (20, 50, 100)
MAX_TURNS = 8
#: A policy that inspects, tries and repairs. One of its 8 turns, `SUBMIT`, does not use the solver.
TURNS = (
    "Action: GET_IIS()",
    "Action: CHECK_SLACK(k2)",
    "Action: RELAX(k2, 1)",
    "Action: UPDATE_BOUNDS(x0, 0, 9)",
    "Action: UPDATE_RHS(k2, 12)",
    "Action: DROP(k2)",
    "Action: CHECK_SLACK(k1)",
    "Action: SUBMIT(k2)",
)


def make_model(num_columns: int, seed: int, mip: bool) -> OptimizationModel:
    """Return a model with eight variables a row, 0.6 rows a variable and two contradicting rows."""
    rng = random.Random(seed)
    columns = tuple(
        Column(
            name=f"x{at}",
            cost=rng.uniform(1, 9),
            upper=10.0,
            is_integer=mip and at < num_columns // 10,
        )
        for at in range(num_columns)
    )
    rows = [
        ModelRow(
            name=f"c{at}",
            coefficients={c.name: round(rng.uniform(0.5, 5), 2) for c in rng.sample(columns, 8)},
            upper=rng.uniform(20, 60),
        )
        for at in range(int(0.6 * num_columns))
    ]
    shared = {column.name: 1.0 for column in rng.sample(columns, 3)}
    rows.append(ModelRow(name="k1", coefficients=shared, upper=10.0))
    rows.append(ModelRow(name="k2", coefficients=shared, lower=15.0))
    return OptimizationModel(columns=columns, rows=tuple(rows))


def make_task(num_columns: int, seed: int, mip: bool) -> Task:
    model = make_model(num_columns, seed, mip)
    fixed = model.row("k2").model_copy(update={"lower": 5.0})
    instance = Instance(
        id=f"n{num_columns}-{seed}",
        error_type="D",
        difficulty="easy",
        model=model,
        original_objective=solve(model.with_row(fixed), 10.0).objective or 0.0,
        root_cause=("k2",),
        fix=(SetRow(row=fixed),),
        iis=irreducible(model, 10.0),
    )
    played = EnvironmentTask(
        name="or_debug", instance=instance.model_dump(mode="json"), max_turns=MAX_TURNS
    )
    return Task(
        id=instance.id,
        dataset="bench",
        role=Role.TEST,
        prompt=model.text(),
        rubric="or_debug.faithful",
        environment=played,
    )


def core(num_columns: int, num_episodes: int, mip: bool) -> float:
    """Return steps a second of CPU time of this process; a turn is a call with all turns so far."""
    models = [make_model(num_columns, seed, mip) for seed in range(num_episodes)]
    episodes = Episodes(10.0)
    started = time.process_time()
    for model in models:
        for length in range(1, len(TURNS) + 1):
            state = episodes.replay(model, TURNS[:length], MAX_TURNS)
        assert state.outcome.is_optimal, "the repair must work, or something else is measured"
    return num_episodes * len(TURNS) / (time.process_time() - started)


async def over_http(url: str, num_columns: int, num_episodes: int, mip: bool) -> float:
    """Return steps a second through a single service, eight episodes side by side."""
    tasks = [make_task(num_columns, 1000 + at, mip) for at in range(num_episodes)]
    room = asyncio.Semaphore(8)
    async with RewardClient(url, retry=NO_RETRY) as client:

        async def play(task: Task) -> None:
            async with room:
                for length in range(1, len(TURNS) + 1):
                    request = StepRequest(task=task, turns=TURNS[:length])
                    response = await client.step(request)
                assert response.done
                assert response.facts["status"] == "optimal"

        await play(tasks[0])
        started = time.perf_counter()
        await asyncio.gather(*(play(task) for task in tasks[1:]))
        return (num_episodes - 1) * len(TURNS) / (time.perf_counter() - started)


def start_service() -> tuple["subprocess.Popen[str]", str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "assay_shared.cli", "reward", "serve", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "listening on" in line:
            # Drain the pipe: otherwise it would fill with log lines and block the service.
            threading.Thread(target=deque, args=(process.stderr, 0), daemon=True).start()
            return process, json.loads(line)["message"].split()[-1]
    raise SystemExit("the reward service did not start")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    parser.add_argument("--episodes", type=int, default=60, help="of each size and repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    asked = parser.parse_args()
    results: dict[str, dict[str, list[float]]] = {"core": {}, "http": {}}
    for _ in range(asked.repetitions):
        process, url = start_service()  # a new service each time, with an empty cache
        try:
            for size, mip in itertools.product(SIZES, (False, True)):
                name = f"{size} {'MIP' if mip else 'LP'}"
                found = core(size, asked.episodes, mip)
                results["core"].setdefault(name, []).append(found)
                found = asyncio.run(over_http(url, size, asked.episodes, mip))
                results["http"].setdefault(name, []).append(found)
        finally:
            process.terminate()
            process.wait(30)
    print("variables   core, steps/CPU s (low, high)  HTTP, steps/s (low, high)")
    for name in results["core"]:
        shown = [
            f"{statistics.median(of[name]):8.0f} ({min(of[name]):.0f} to {max(of[name]):.0f})"
            for of in results.values()
        ]
        print(f"{name:>9}   {shown[0]:<28}   {shown[1]}")
    if asked.output:
        content = {"turns": TURNS, "episodes": asked.episodes, "steps_per_second": results}
        asked.output.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
