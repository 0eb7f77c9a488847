"""Measures the pages of results of a large evaluation: times, waits of other pages, and memory.

`python -m tests.support.browser.result_times FOLDER [NUM_SAMPLES]` makes three runs in FOLDER whose
evaluations have 100,000 samples each, starts the trainer service there, and prints a table.
"""

import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import PolicyVersion, Status
from assay_trainer.evaluation.evaluator import EvaluationSample, TaskEvaluation, TaskResult
from tests.support.browser.page_times import NUM_TIMES, get, memory_mib, say, served
from tests.support.browser.stored_runs import make_run

_SAMPLES_PER_TASK = 8
_RUNS = ("a", "b", "c")
_PAGES = {
    "evaluations": "/runs/a/evaluations",
    "a task before and after": "/runs/a/evaluations/task?set=held_out&task=family-2/4002",
    "two runs side by side": "/compare?run=a&run=b",
    "three runs side by side": "/compare?run=a&run=b&run=c",
}


def write_evaluations(run: RunFolder, num_samples: int, seed: int) -> None:
    """Store the evaluations of a run before and after training, with about as many samples."""
    run.evaluation("before").parent.mkdir(exist_ok=True)
    for name, share in (("before", 0.3), ("after", 0.4 + 0.05 * seed)):
        source = random.Random(f"{seed} {name}")
        found = TaskEvaluation(
            name=name,
            policy=PolicyVersion(version=1, digest="d" * 64),
            confidence=0.95,
            results=list(_results(source, num_samples // _SAMPLES_PER_TASK, share)),
        )
        run.evaluation(name).write_text(found.model_dump_json())


def _results(source: random.Random, num_tasks: int, share: float) -> Iterator[TaskResult]:
    for number in range(num_tasks):
        samples = [
            EvaluationSample(
                text=f"def solve(x):\n    return {source.random()}\n" * 6,
                outcome=Status.ACCEPTED if source.random() < share else Status.WRONG_ANSWER,
            )
            for _ in range(_SAMPLES_PER_TASK)
        ]
        tags = {"domain": ("code", "lookup")[number % 2], "family": f"f{number % 5}"}
        name = f"family-{number % 5}/{number}"
        prompt = f"Write task {number}. " * 8
        yield TaskResult(task_id=name, prompt=prompt, tags=tags, samples=samples)


def main(folder: Path, num_samples: int) -> None:
    """Print the times."""
    for seed, name in enumerate(_RUNS):
        if not (folder / name).exists():
            write_evaluations(make_run(folder / name), num_samples, seed)
    with served(folder) as service:
        say(f"memory of the service at its start: {memory_mib(service):.0f} MiB")
        for name, path in _PAGES.items():
            first, waits = _first(path)
            times = [get(path)[0] for _ in range(NUM_TIMES)]
            say(
                f"{name:<24} first {first / 1000:5.1f} s, then median {median(times):5.1f} ms, "
                f"most {max(times):5.1f} ms; all runs meanwhile: median {median(waits):5.1f} ms, "
                f"most {max(waits):5.1f} ms; memory {memory_mib(service):.0f} MiB"
            )


def _first(path: str) -> tuple[float, list[float]]:
    """Return the milliseconds of a first request, and those of the list of runs meanwhile."""
    took: list[float] = []
    first = threading.Thread(target=lambda: took.append(get(path)[0]))
    first.start()
    waits = []
    while first.is_alive():
        waits.append(get("/")[0])
        time.sleep(0.05)
    first.join()
    return took[0], waits


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
