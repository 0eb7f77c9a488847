"""Tasks whose first answer turned right or wrong, with a few of them for people to read."""

from collections.abc import Sequence

from assay_shared.types import Status
from assay_trainer.comparison.arms import ComparedArm, ComparedTask
from assay_trainer.comparison.results import FrozenResult

#: Tasks shown of a set in each direction.
NUM_SHOWN = 3
_MOST_CHARACTERS = 3000
_MOST_IDS = 2000


class ShownFlip(FrozenResult):
    """A task whose first answer turned, with both answers; long texts are cut."""

    task_id: str
    prompt: str
    before: str
    before_outcome: Status
    after: str
    after_outcome: Status


class SetFlips(FrozenResult):
    """First answers of a set, baseline against arm, over the tasks with both."""

    set: str
    arm: str
    both_right: int
    turned_right: int
    turned_wrong: int
    both_wrong: int
    #: Tasks by id, at most 2,000 each.
    right_ids: list[str]
    wrong_ids: list[str]
    shown_right: list[ShownFlip]
    shown_wrong: list[ShownFlip]


def flips_of(baseline: ComparedArm, arm: ComparedArm) -> list[SetFlips]:
    """Return the turned tasks of each set, by the first answer of each side's first seed."""
    found = []
    for name in baseline.set_names:
        first, second = baseline.sets_of(name), arm.sets_of(name)
        if not first or not second:
            continue
        pairs = [
            (task, second[0].tasks[id_])
            for id_, task in first[0].tasks.items()
            if task.samples and id_ in second[0].tasks and second[0].tasks[id_].samples
        ]
        if pairs:
            found.append(_set_flips(name, arm.name, pairs))
    return found


def _set_flips(name: str, arm: str, pairs: Sequence[tuple[ComparedTask, ComparedTask]]) -> SetFlips:
    right = [pair for pair in pairs if not _is_right(pair[0]) and _is_right(pair[1])]
    wrong = [pair for pair in pairs if _is_right(pair[0]) and not _is_right(pair[1])]
    num_right = sum(_is_right(after) for _, after in pairs)
    return SetFlips(
        set=name,
        arm=arm,
        both_right=num_right - len(right),
        turned_right=len(right),
        turned_wrong=len(wrong),
        both_wrong=len(pairs) - num_right - len(wrong),
        right_ids=[task.id for task, _ in right[:_MOST_IDS]],
        wrong_ids=[task.id for task, _ in wrong[:_MOST_IDS]],
        shown_right=[_shown(*pair) for pair in right[:NUM_SHOWN]],
        shown_wrong=[_shown(*pair) for pair in wrong[:NUM_SHOWN]],
    )


def _is_right(task: ComparedTask) -> bool:
    return task.samples[0].outcome is Status.ACCEPTED


def _shown(before: ComparedTask, after: ComparedTask) -> ShownFlip:
    return ShownFlip(
        task_id=before.id,
        prompt=_cut(before.prompt),
        before=_cut(before.samples[0].text),
        before_outcome=before.samples[0].outcome,
        after=_cut(after.samples[0].text),
        after_outcome=after.samples[0].outcome,
    )


def _cut(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}... ({len(text)} characters)"
