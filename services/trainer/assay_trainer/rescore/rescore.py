"""Scores a run's stored answers again and writes the changes. Nothing is generated."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from assay_shared.clients import RetryBudget, RewardClient, Timeouts
from assay_shared.clients.batching import BatchRewarder, GroupScores, score_groups
from assay_shared.errors import Conflict, InvalidInput, NotFound
from assay_shared.runs.run_folder import RunFolder, write_atomically
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import GroupFailed, Reward, Scored, ScoreRequest
from assay_trainer.rescore.comparison import Rescored, RunComparison, compare
from assay_trainer.rescore.stored_answers import Mark, StoredAnswers, StoredGroup, read_stored

#: What the reward service scores at once; progress is shown after each such batch.
_BATCH_SIZE = 64
_ATTEMPT_S = 600.0
_RETRIES = 10_000  # time is what bounds them


def rescore_run(
    folder: RunFolder,
    settings: ServiceSettings,
    rubric: str | None,
    output: Path | None,
    give_up_after_s: float,
) -> tuple[RunComparison, Path]:
    """Score all stored answers by `rubric`, or each task's own; return the comparison and its file.

    A picture and the rewards of each answer, as JSON lines, lie next to the file.

    Raises:
        InvalidInput: there is nothing to score.
        NotFound: the service has no such rubric.
        Conflict: a file to be written exists already.
        InfrastructureError: the service is gone for longer than `give_up_after_s`.
    """
    path = output or _default_path(folder, rubric)
    _check_free(path)
    stored = read_stored(folder)
    if not stored.groups:
        raise InvalidInput(f"{folder.path} has no answers to score")
    rescored = asyncio.run(_rescore(stored, settings, rubric, give_up_after_s, folder.path.name))
    comparison = compare(folder.path.name, rubric, rescored, dict(stored.left_out))
    _write(path, comparison, rescored)
    return comparison, path


async def _rescore(
    stored: StoredAnswers,
    settings: ServiceSettings,
    rubric: str | None,
    give_up_after_s: float,
    run: str,
) -> list[Rescored]:
    async with RewardClient.from_settings(
        settings,
        timeouts=Timeouts(read_s=_ATTEMPT_S, total_s=_ATTEMPT_S),
        retry=RetryBudget(attempts=_RETRIES, total_s=give_up_after_s),
    ) as rewarder:
        known = {info.name for info in await rewarder.rubrics()}
        if rubric is not None and rubric not in known:
            raise NotFound(
                f"no rubric is called {rubric!r}",
                field="--rubric",
                hint=f"known: {', '.join(sorted(known))}",
            )
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, transient=True) as progress:
            bar = progress.add_task("groups", total=len(stored.groups))
            return await rescore_groups(
                stored.groups,
                rewarder,
                rubric,
                run=run,
                give_up_after_s=give_up_after_s,
                on_scored=lambda num: progress.advance(bar, num),
            )


async def rescore_groups(
    groups: list[StoredGroup],
    rewarder: BatchRewarder,
    rubric: str | None,
    *,
    run: str,
    give_up_after_s: float,
    on_scored: Callable[[int], None] = lambda _: None,
) -> list[Rescored]:
    """Return the groups with their new scores, in order."""
    requests = [
        ScoreRequest(task=group.task, answers=group.answers, rubric=rubric, run=run)
        for group in groups
    ]
    responses = await score_groups(
        rewarder,
        requests,
        give_up_after_s=give_up_after_s,
        batch_size=_BATCH_SIZE,
        on_scored=on_scored,
    )
    return [_rescored(*pair) for pair in zip(groups, responses, strict=True)]


def _rescored(group: StoredGroup, response: GroupScores) -> Rescored:
    if isinstance(response, GroupFailed):
        num = len(group.answers)
        return Rescored(group, (Mark(None),) * num, "", (response.failure,) * num)
    return Rescored(
        group,
        tuple(_mark(reward) for reward in response.rewards),
        response.scorer,
        tuple(one.failure for one in response.rewards if not isinstance(one, Scored)),
    )


def _mark(reward: Reward) -> Mark:
    return Mark(reward.value, reward.outcome) if isinstance(reward, Scored) else Mark(None)


def _default_path(folder: RunFolder, rubric: str | None) -> Path:
    name = f"{rubric or 'own'}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    return folder.path / "rescored" / name


def _check_free(path: Path) -> None:
    if path.suffix != ".json":
        raise InvalidInput(f"{path} must end in .json", field="--output")
    for suffix in (".json", ".jsonl", ".png"):
        if path.with_suffix(suffix).exists():
            raise Conflict(f"{path.with_suffix(suffix)} exists", hint="choose another --output")


def _write(path: Path, comparison: RunComparison, rescored: list[Rescored]) -> None:
    from assay_trainer.evaluation.figures import draw_rescored

    write_atomically(path.with_suffix(".jsonl"), "".join(map(_lines, rescored)))
    pairs = [one.both_G() for one in rescored]
    before = [value for old, _ in pairs for value in old]
    after = [value for _, new in pairs for value in new]
    if before:
        draw_rescored(
            before, after, comparison.rubric or "each task's own", path.with_suffix(".png")
        )
    write_atomically(path, comparison.model_dump_json(indent=2) + "\n")


def _lines(one: Rescored) -> str:
    """Return a JSON line per answer: its key, and its reward before and after."""
    group = one.stored
    rows = (
        {
            "source": group.source,
            "key": group.key,
            "task_id": group.task.id,
            "index": index,
            "before": {"value": old.value, "outcome": old.outcome, "scorer": group.scorer},
            "after": {"value": new.value, "outcome": new.outcome, "scorer": one.scorer},
        }
        for index, (old, new) in enumerate(zip(group.marks, one.marks, strict=True))
    )
    return "".join(json.dumps(row) + "\n" for row in rows)
