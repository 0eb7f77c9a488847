"""The judges' part in stored groups: the deciding judge, and its labels."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from assay_shared.errors import DatasetError, NotFound
from assay_shared.types import Scored
from assay_trainer.browser.reading.run_index import RunIndex
from assay_trainer.rollouts.rollout_log import TrainedGroup

#: Groups read from the beginning of a run, and as many from its end.
_SAMPLED = 24
#: The words of a judged component: a label, or grades by their criteria.
_LABELLED = re.compile(r"(CORRECT|INCORRECT|UNSURE) by (\S{1,100})")
_GRADED = re.compile(r"[^\n]{1,400} \d{1,4} by (\S{1,100})")


@dataclass(frozen=True)
class JudgedGroup:
    """A group with judged answers: its judge, and the number of answers by label."""

    step: int
    judge: str
    labels: Counter[str]


@dataclass
class JudgedSample:
    """Judged groups from both ends of a run, read again when the run has grown by a quarter."""

    _num_groups: int = 0
    _found: Sequence[JudgedGroup] = field(default=())

    def read(self, index: RunIndex) -> Sequence[JudgedGroup]:
        """Return the judged groups of the sample, in the order of steps; none without a judge."""
        ids = index.all_ids()
        if len(ids) != self._num_groups and len(ids) >= 1.25 * self._num_groups:
            some = ids if len(ids) <= 2 * _SAMPLED else [*ids[:_SAMPLED], *ids[-_SAMPLED:]]
            self._num_groups, self._found = len(ids), _judged(index, some)
        return self._found


def _judged(index: RunIndex, ids: Sequence[int]) -> list[JudgedGroup]:
    found: list[JudgedGroup] = []
    for place, number in enumerate(ids):
        if place > len(ids) // 4 and not found:
            break  # the run has no judge
        try:
            group = judged_group(index.group(number))
        except (DatasetError, NotFound):
            continue  # named among the damaged lines
        if group is not None:
            found.append(group)
    return found


def judged_group(group: TrainedGroup) -> JudgedGroup | None:
    """Return the judge and labels of a stored group; None without a judge."""
    labels: Counter[str] = Counter()
    judges: Counter[str] = Counter()
    for reward in group.rewards:
        for part in reward.components if isinstance(reward, Scored) else ():
            labelled = _LABELLED.fullmatch(part.detail)
            graded = None if labelled else _GRADED.fullmatch(part.detail)
            if labelled:
                labels[labelled[1]] += 1
                judges[labelled[2]] += 1
            elif graded:
                judges[graded[1]] += 1
    return JudgedGroup(group.step, judges.most_common(1)[0][0], labels) if judges else None
