"""Runs of workflows in the rollouts of a training."""

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay_reward.workflows.execution.run import WorkflowRun
from assay_shared.errors import DatasetError


def stored_runs(path: Path, number: int) -> list[tuple[str, WorkflowRun, str]]:
    """Return the last runs of a rollouts.jsonl, oldest first, each with its title and source.

    Raises:
        DatasetError: the file or a line of it cannot be read; names the line.
    """
    last: deque[tuple[str, WorkflowRun, str]] = deque(maxlen=number)
    try:
        with path.open() as file:
            for at, line in enumerate(file, start=1):
                if line.endswith("\n"):  # the last line of a running training may be unfinished
                    last.extend(_read_line(f"{path}:{at}", line))
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None
    return list(last)


def _read_line(place: str, line: str) -> list[tuple[str, WorkflowRun, str]]:
    try:
        return list(_runs_of(line))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(f"{place}: not a group of rollouts: {error!r:.200}") from None


def _runs_of(line: str) -> Iterator[tuple[str, WorkflowRun, str]]:
    group: dict[str, Any] = json.loads(line)
    for index, reward in enumerate(group["rewards"]):
        found = reward.get("evidence", {}).get("workflow")
        if found is None or "run" not in found:
            continue
        value = reward.get("value")
        shown = "no score" if value is None else f"reward {value:.3g}"
        title = f"{group['group']['task']['id']}, answer {index}, {shown}"
        yield title, WorkflowRun.model_validate(found["run"]), found["source"]
