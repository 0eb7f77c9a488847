"""The workflow that a search found, for tasks that the search has not seen."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from assay_reward.workflows.comparison.candidates import CandidateKind, WorkflowCandidate
from assay_reward.workflows.comparison.plan import digest_of
from assay_reward.workflows.comparison.play_log import PlayHeader, kept_lines
from assay_shared.errors import DatasetError, RoleError
from assay_shared.types import Task

#: Files of a search: its log, and the workflow found.
LOG: Final = "search.jsonl"
BEST: Final = "best.txt"


def searched_candidate(name: str, folder: Path, tasks: Sequence[Task]) -> WorkflowCandidate:
    """Return the best workflow of a search under a name, for tasks that the search has not seen.

    Raises:
        DatasetError: the folder has no ended search.
        RoleError: a task was searched on.
    """
    best, log = folder / BEST, folder / LOG
    if not best.exists() or not log.exists():
        raise DatasetError(f"{folder} has no ended search: {BEST} or {LOG} is missing")
    header = PlayHeader.model_validate(next(kept_lines(log), {}))
    seen = set(header.facts.get("ids", "").split(","))
    known = [task.id for task in tasks if digest_of([task.id]) in seen]
    if known:
        raise RoleError(
            f"the search has seen task {known[0]}, and {len(known)} of these tasks in all",
            field="searched",
            hint="compare on other tasks",
        )
    return WorkflowCandidate(name, CandidateKind.SEARCHED, best.read_text())
