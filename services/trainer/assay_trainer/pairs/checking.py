"""The labels of given pairs, checked by somebody else than their author.

`scores`: the scores in the rows themselves. `judge`: the judge, asked in both orders.
`reward`: the reward service, which scores both answers of a pair as one group.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from assay_shared.clients import RetryBudget, RewardClient, Timeouts
from assay_shared.clients.batching import GroupScores, score_groups
from assay_shared.errors import DatasetError, InvalidInput, RoleError
from assay_shared.runs.run_folder import write_atomically, write_json
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Answer, GroupFailed, Message, Role, Scored, ScoreRequest, Task
from assay_trainer.config import JsonlSource
from assay_trainer.curation.partial import partial_folder
from assay_trainer.data.dataset import DatasetPurpose, named_source, open_dataset
from assay_trainer.data.governance.manifest import MANIFEST, checked_rows
from assay_trainer.data.importers.format import Row, RowKind
from assay_trainer.data.importers.preference import read_pair
from assay_trainer.data.rows import Layout, read_raw_rows
from assay_trainer.pairs.judging import (
    AskedPair,
    JudgedPair,
    LabelFinding,
    failed_pair,
    judged_numbers,
)
from assay_trainer.pairs.lengths import length_numbers
from assay_trainer.pairs.making import METRICS, Progress, ask_judge
from assay_trainer.pairs.options import CheckedBy

ROWS = "pairs.jsonl"
_ATTEMPT_S = 600.0
_GIVE_UP_AFTER_S = 60.0
_BATCH_SIZE = 32
_GREATEST_SCORE = 1e300
_MOST_REASONS = 10
_NO_SCORES = "the row has no two scores that can be compared"


@dataclass(frozen=True)
class CheckOrder:
    """A check of the pairs in `source`, with its results in `output`."""

    source: Path
    output: Path
    by: CheckedBy
    rubric: str | None = None
    #: The tasks that the pairs name by `task_id`, for rubrics that need tests or references.
    tasks: str | None = None
    limit: int | None = None
    seed: int = 0
    data_folder: Path | None = None


@dataclass(frozen=True)
class GivenPair:
    """A pair as it stands in a file."""

    line: int
    task: Task
    task_id: str | None
    rejected: str
    scores: tuple[float, float] | None
    #: The lines of its copies: the same pair counts once.
    copies: tuple[int, ...] = ()

    @property
    def texts(self) -> frozenset[tuple[str, ...]]:
        """Both answers with their prompt: those of a swapped pair are the same."""
        asked = (self.task_id or "", *(part for said in self.task.messages for part in _said(said)))
        return frozenset({(*asked, self.chosen), (*asked, self.rejected)})

    @property
    def chosen(self) -> str:
        return self.task.gold or ""

    @property
    def question(self) -> str:
        return "\n\n".join(said.content for said in self.task.messages)


def check_pairs(
    order: CheckOrder, settings: ServiceSettings, report: Progress = lambda done, total: None
) -> dict[str, Any]:
    """Write metrics.json and a line for each pair, and return the numbers.

    Raises:
        Conflict: the output exists.
        DatasetError: the source cannot be read, or no pair of it can be checked.
        InvalidInput: the rubric needs tasks that are not given.
        InfrastructureError: a service cannot be reached.
    """
    with partial_folder(order.output) as folder:
        given, num_unread = read_pairs(order.source)
        pairs = distinct(given)
        num_copies = len(given) - len(pairs)
        if order.limit is not None and order.limit < len(pairs):
            places = random.Random(f"{order.seed}/checked pairs").sample(
                range(len(pairs)), order.limit
            )
            pairs = [pairs[place] for place in sorted(places)]
        found = _found(pairs, order, settings, report)
        numbers = {
            "num_pairs": len(pairs),
            "num_unread": num_unread,
            "num_copies": num_copies,
            "num_swapped": len(pairs) - len({one.texts for one in pairs}),
            "num_scored_tasks": _num_scored(pairs, found),
            **judged_numbers(found),
            "failed_because": _reasons(found),
            **length_numbers([(one.question, one.chosen, one.rejected) for one in pairs]),
        }
        if not numbers["num_scored_tasks"]:
            told = "; ".join(f"{number}: {why}" for why, number in _reasons(found).items())
            raise DatasetError(f"none of {len(pairs)} pairs could be checked: {told}", field="PATH")
        lines = [_line(one, said) for one, said in zip(pairs, found, strict=True)]
        write_atomically(folder / ROWS, "".join(f"{line}\n" for line in lines))
        write_json(folder / METRICS, {"overall": numbers})
    return numbers


def distinct(pairs: Sequence[GivenPair]) -> list[GivenPair]:
    """Return each pair once, with the lines of its copies; a copy with scores stands for all.

    A pair and the same one with the answers swapped are two: one of their labels is wrong.
    """
    found: dict[tuple[object, ...], GivenPair] = {}
    for one in pairs:
        key = (one.texts, one.chosen)
        first = found.setdefault(key, one)
        if first is not one:
            scores = first.scores or one.scores
            found[key] = replace(first, scores=scores, copies=(*first.copies, one.line))
    return list(found.values())


def _num_scored(pairs: Sequence[GivenPair], found: Sequence[JudgedPair]) -> int:
    """Return the number of checked pairs; a pair and its swapped one are one task."""
    done = zip(pairs, found, strict=True)
    return len({one.texts for one, said in done if said.agreement is not LabelFinding.FAILED})


def _reasons(found: Sequence[JudgedPair]) -> dict[str, int]:
    """Return how many pairs have failed for each of the most frequent reasons."""
    failed = [one.reason for one in found if one.agreement is LabelFinding.FAILED]
    return dict(Counter(failed).most_common(_MOST_REASONS))


def _said(message: Message) -> tuple[str, str]:
    return message.role, message.content


def read_pairs(source: Path) -> tuple[list[GivenPair], int]:
    """Return the pairs of a folder or a file, and the number of rows that are none.

    Labels are not compared with scores here: that is the check itself.

    Raises:
        DatasetError: there is no such file, or it has no pair.
    """
    path = source
    if source.is_dir():
        if not (source / MANIFEST).is_file():
            raise DatasetError(f"{source} has no {MANIFEST}", field="PATH")
        manifest, path = checked_rows(source)
        if manifest.kind is not RowKind.PREFERENCES:
            raise DatasetError(f"{source} has {manifest.kind}, not preferences", field="PATH")
    elif not source.exists():
        raise DatasetError(f"there is no file or folder {source}", field="PATH")
    pairs: list[GivenPair] = []
    num_unread = 0
    for raw in read_raw_rows(path, Layout()):
        try:
            pairs += _read(raw.value, raw.number)
        except DatasetError:
            num_unread += 1
    if not pairs:
        raise DatasetError(f"{path} has no pair that can be read", field="PATH")
    return pairs, num_unread


def _read(value: object, line: int) -> Iterable[GivenPair]:
    row = Row(value)
    name = row.value.get("task_id")
    for task, rejected in read_pair(row, str(line)):
        yield GivenPair(
            line, task, name if isinstance(name, str) else None, rejected, _scores(row.value)
        )


def _scores(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the scores of a row: its own, of its metadata, or of `assay data pairs`."""
    places = ((row, "score_"), (row.get("metadata"), "score_"), (row.get("scores"), ""))
    for values, before in places:
        if isinstance(values, Mapping):
            chosen, rejected = (values.get(f"{before}{name}") for name in ("chosen", "rejected"))
            if _is_number(chosen) and _is_number(rejected):
                return float(chosen), float(rejected)
    return None


def _is_number(value: object) -> TypeGuard[float]:
    """Return True of a comparable number: not of NaN, nor beyond a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_GREATEST_SCORE <= value <= _GREATEST_SCORE


def _found(
    pairs: Sequence[GivenPair], order: CheckOrder, settings: ServiceSettings, report: Progress
) -> list[JudgedPair]:
    if order.by is CheckedBy.SCORES:
        return [_by_scores(one.scores, _NO_SCORES) for one in pairs]
    if order.by is CheckedBy.JUDGE:
        asked = [
            AskedPair(one.question, one.chosen, one.rejected, one.task.reference) for one in pairs
        ]
        return asyncio.run(ask_judge(asked, settings, report))
    return asyncio.run(_rescored(pairs, order, settings, report))


def _by_scores(scores: tuple[float, float] | None, reason: str) -> JudgedPair:
    """Return what the scores say of the label; without them, the reason why there are none."""
    return failed_pair(reason) if scores is None else JudgedPair(compared(scores))


def compared(scores: tuple[float, float]) -> LabelFinding:
    """Return the finding about the label by the scores of both answers."""
    chosen, rejected = scores
    if chosen == rejected:
        return LabelFinding.UNDECIDED
    return LabelFinding.AGREES if chosen > rejected else LabelFinding.DISAGREES


async def _rescored(
    pairs: Sequence[GivenPair], order: CheckOrder, settings: ServiceSettings, report: Progress
) -> list[JudgedPair]:
    requests = [
        ScoreRequest(
            task=task,
            answers=(Answer(text=one.chosen), Answer(text=one.rejected)),
            rubric=order.rubric,
        )
        for one, task in zip(pairs, tasks_of(pairs, order), strict=True)
    ]
    done = 0

    def on_scored(number: int) -> None:
        nonlocal done
        done += number
        report(done, len(requests))

    async with RewardClient.from_settings(
        settings,
        timeouts=Timeouts(read_s=_ATTEMPT_S, total_s=_ATTEMPT_S),
        retry=RetryBudget(attempts=10, total_s=_GIVE_UP_AFTER_S),
    ) as rewarder:
        responses = await score_groups(
            rewarder,
            requests,
            give_up_after_s=_GIVE_UP_AFTER_S,
            batch_size=_BATCH_SIZE,
            on_scored=on_scored,
        )
    return [_by_scores(_values(one), _failure_of(one)) for one in responses]


def tasks_of(pairs: Sequence[GivenPair], order: CheckOrder) -> list[Task]:
    """Return the task of each pair, which its rubric needs.

    Raises:
        InvalidInput: without a set of tasks there must be a rubric, and with one, every pair's task
            must be in it.
    """
    if order.tasks is None:
        if order.rubric is None:
            raise InvalidInput(
                "pairs do not name a rubric",
                field="--rubric",
                hint="name one, or the set of tasks that the pairs are of: --tasks SET",
            )
        return [one.task.model_copy(update={"gold": None}) for one in pairs]
    source = named_source(order.tasks)
    # A file may also hold rows for tests: what counts is the tasks that pairs name.
    mixed = isinstance(source, JsonlSource)
    purpose = DatasetPurpose.EVALUATE if mixed else DatasetPurpose.TRAIN
    known = {task.id: task for task in open_dataset(source, purpose, order.data_folder).tasks}
    for one in pairs:
        if one.task_id not in known:
            raise InvalidInput(
                f"line {one.line} is of task {one.task_id!r}, which {order.tasks} does not have",
                field="--tasks",
            )
        if known[one.task_id].role is not Role.TRAIN:
            raise RoleError(
                f"line {one.line} is of task {one.task_id!r}, which is for "
                f"{known[one.task_id].role} only",
                field="--tasks",
                hint="leave the pair out: nothing may be trained on this task",
            )
    return [known[one.task_id] for one in pairs if one.task_id is not None]


def _values(response: GroupScores) -> tuple[float, float] | None:
    if isinstance(response, GroupFailed):
        return None
    values = [one.value for one in response.rewards if isinstance(one, Scored)]
    return (values[0], values[1]) if len(values) == 2 else None


def _failure_of(response: GroupScores) -> str:
    """Return why a group has no two scores; empty if it has them."""
    if isinstance(response, GroupFailed):
        return response.failure.message
    unscored = (one for one in response.rewards if not isinstance(one, Scored))
    return next((one.failure.message for one in unscored), "")


def _line(pair: GivenPair, said: JudgedPair) -> str:
    row: dict[str, Any] = {"line": pair.line, "id": pair.task.id, "label": said.agreement}
    if pair.copies:
        row["copies"] = pair.copies
    return json.dumps(row | ({"reason": said.reason} if said.reason else {}))
