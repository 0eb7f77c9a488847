"""Policies without skill on the held-out tasks, in the units of the ablation's metrics.

Tasks of one answer have those of `assay audit`; tasks of or_debug, those of `assay or-debug
evaluate`, which runs as another process.
"""

import asyncio
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter

from assay_shared.clients import RewardClient
from assay_shared.clients.batching import BatchRewarder
from assay_shared.errors import AssayError
from assay_shared.runs.run_folder import write_atomically
from assay_shared.settings.environment import ServiceSettings
from assay_shared.statistics.interval import Interval
from assay_shared.statistics.paired import mean_over_tasks
from assay_shared.types import Task
from assay_trainer.ablation.judging.findings import TableRow, ValueBounds
from assay_trainer.ablation.judging.judge import within
from assay_trainer.checks.baselines import audit

KIND = "trivial"
_OR_DEBUG = "or_debug"
_ROWS = TypeAdapter(list[TableRow])
_TIMEOUT_S = 1800.0
_CONFIDENCE = 0.95
#: Components of the or_debug rubrics by the names of its evaluator.
_OR_NAMES = {
    "or_faithful": "faithful",
    "or_diagnosis": "diagnosis_jaccard",
    "or_iis_recall": "diagnosis_iis_recall",
    "pass@1": "faithful",
}


class TrivialUnmeasured(AssayError):
    """The policies without skill could not be measured; the report says why."""


def trivial_rows(
    tasks: Sequence[Task],
    set_name: str,
    metrics: Sequence[str],
    settings: ServiceSettings,
    at: Path,
) -> list[TableRow]:
    """Return the rows of policies without skill, from the file `at` if they are there.

    Raises:
        TrivialUnmeasured: they cannot be measured.
    """
    if at.exists():
        return _ROWS.validate_json(at.read_bytes())
    names = {task.environment.name if task.environment else "" for task in tasks}
    if names == {_OR_DEBUG}:
        rows = _of_or_debug(tasks, set_name, metrics, at.with_suffix(""))
    elif names == {""}:
        rows = asyncio.run(_of_answers(tasks, set_name, metrics, settings))
    else:
        raise TrivialUnmeasured(f"no policy without skill plays {', '.join(sorted(names))}")
    write_atomically(at, _ROWS.dump_json(rows, indent=1).decode() + "\n")
    return rows


async def _of_answers(
    tasks: Sequence[Task], set_name: str, metrics: Sequence[str], settings: ServiceSettings
) -> list[TableRow]:
    async with RewardClient.from_settings(settings) as client:
        rewarder: BatchRewarder = client
        earned = await audit(tasks, rewarder)
    rows = []
    for policy, earnings in earned.items():
        if not earnings.rewards:
            continue
        reward = mean_over_tasks(earnings.rewards, _CONFIDENCE, 0)  # as of the start
        known = {"reward": reward, "pass@1": earnings.accepted()}
        rows += [
            _row(policy, set_name, metric, known[metric], earnings.rewards)
            for metric in metrics
            if metric in known
        ]
    return rows


def _of_or_debug(
    tasks: Sequence[Task], set_name: str, metrics: Sequence[str], work: Path
) -> list[TableRow]:
    work.mkdir(parents=True, exist_ok=True)
    file, episodes = work / "tasks.jsonl", work / "episodes.jsonl"
    episodes.unlink(missing_ok=True)
    write_atomically(file, "".join(f"{task.model_dump_json()}\n" for task in tasks))
    command = [sys.executable, "-m", "assay_shared.cli", "or-debug", "evaluate", str(file)]
    options = ["--policy", "probe", "--role", "all", "--output", str(work)]
    try:
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise TrivialUnmeasured(f"assay or-debug evaluate took over {_TIMEOUT_S:g} s") from None
    # Exit code 1 after the episodes are written: some have no result, and enter no mean.
    if done.returncode not in (0, 1) or not episodes.is_file():
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise TrivialUnmeasured(f"assay or-debug evaluate failed: {' '.join(last)}")
    return _rows_of_episodes(episodes, set_name, metrics)


def _rows_of_episodes(file: Path, set_name: str, metrics: Sequence[str]) -> list[TableRow]:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in file.read_text().splitlines():
        episode = json.loads(line)
        for metric in metrics:
            known = episode["metrics"].get(_OR_NAMES.get(metric, metric))
            if known is not None:
                values[episode["policy"], metric].append(float(known))
    return [
        _row(policy, set_name, metric, mean_over_tasks(some, _CONFIDENCE, 0), some)
        for (policy, metric), some in values.items()
    ]


def _row(
    policy: str, set_name: str, metric: str, found: Interval, values: Sequence[float]
) -> TableRow:
    bounds = ValueBounds(value=found.value, low=found.low, high=found.high)
    return TableRow(
        policy=policy,
        kind=KIND,
        set=set_name,
        metric=metric,
        value=within(bounds, metric, values),
        num_tasks=len(values),
    )
