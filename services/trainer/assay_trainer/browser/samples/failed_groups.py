"""Groups with failed samples, next to the zeros that usual practice would train on."""

from assay_shared.errors import DatasetError, NotFound
from assay_shared.types import Failure, Scored, ScoredGroup
from assay_shared.verdicts.compared import ComparedAnswer, ComparedGroup, GivenReward
from assay_trainer.browser.reading.filters import SampleFilter
from assay_trainer.browser.reading.run_index import RunIndex
from assay_trainer.rollouts.rollout_log import DiscardedGroup, TrainedGroup

_PRACTICE = "a failure counts as a reward of 0"


def failed_groups(index: RunIndex, limit: int) -> list[ComparedGroup]:
    """Return the first groups with both a failed and a scored sample, in the order of steps.

    At most `limit` groups with failed samples are read. A group that failed as a whole has no
    scored sample: zeros alone would teach nothing.
    """
    found = []
    for row in index.page(SampleFilter(outcome="failed"), limit).groups:
        try:
            group = index.group(row.id)
        except (DatasetError, NotFound):
            continue  # the file was changed after its lines were read
        if any(isinstance(one, Scored) for one in group.rewards):
            found.append(_compared(group))
    return found


def _compared(group: TrainedGroup) -> ComparedGroup:
    task = group.group.task
    fate = "not trained on" if isinstance(group, DiscardedGroup) else "trained on"
    return ComparedGroup(
        name=f"step {group.step}, {task.id} ({fate})",
        prompt=task.prompt,
        answers=tuple(_answers(group)),
        rubric=f"{task.rubric}; a failure has no reward",
        practice=_PRACTICE,
    )


def _answers(group: ScoredGroup) -> list[ComparedAnswer]:
    found = []
    for rollout, reward in zip(group.group.rollouts, group.rewards, strict=False):
        if isinstance(reward, Scored):
            own = usual = GivenReward(reward.value, reward.outcome.value)
        else:
            own, usual = _failed(reward.failure), GivenReward(0.0, "read as wrong")
        found.append(ComparedAnswer(rollout.text, own, usual))
    return found


def _failed(failure: Failure) -> GivenReward:
    return GivenReward(None, f"failed: {failure.failure_class.value}", failure.message)
