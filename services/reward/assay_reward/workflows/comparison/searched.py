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
    refuse_seen(log, tasks, "searched")
    return WorkflowCandidate(name, CandidateKind.SEARCHED, best.read_text())


def seen_facts(tasks: Sequence[Task]) -> dict[str, str]:
    """Return what a search notes of its tasks: digests of their ids, and of their problems."""
    return {
        "ids": ",".join(sorted(digest_of([task.id]) for task in tasks)),
        "problems": ",".join(sorted({_problem_digest(task) for task in tasks})),
    }


def refuse_seen(log: Path, tasks: Sequence[Task], field: str) -> None:
    """Refuse tasks of a search, also under other ids; a file that is not there is of no search.

    Raises:
        RoleError: a task was searched on.
    """
    if not log.exists():
        return
    facts = PlayHeader.model_validate(next(kept_lines(log), {})).facts
    ids = set(facts.get("ids", "").split(","))
    problems = set(facts.get("problems", "").split(","))
    known = [
        task.id
        for task in tasks
        if digest_of([task.id]) in ids or _problem_digest(task) in problems
    ]
    if known:
        raise RoleError(
            f"the search of {log} has seen task {known[0]}, and {len(known)} of these tasks in all",
            field=field,
            hint="compare on other tasks",
        )


def _problem_digest(task: Task) -> str:
    """Return a digest of the problem's words, whatever the task's id and environment."""
    played = task.environment
    problem = task.prompt if played is None else str(played.instance.get("problem", ""))
    return digest_of([" ".join(problem.split()).casefold()])
