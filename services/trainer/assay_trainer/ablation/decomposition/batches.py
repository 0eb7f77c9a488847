"""The stored batches of a finished arm: its trained groups by step, and the version they met."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import PolicyVersion, Scored, ScoredGroup
from assay_trainer.events import StepEvent, content, living
from assay_trainer.rollouts.rollout_log import read_discarded, read_rollouts

#: From a group's rewards to new ones.
Rewards = Callable[[Sequence[float]], Sequence[float]]


@dataclass(frozen=True)
class StoredBatch:
    """The groups of a step, and the served version of the weights that they updated."""

    step: int
    policy: PolicyVersion
    groups: tuple[ScoredGroup, ...]

    @property
    def has_signal(self) -> bool:
        """Return True if the rewards of a group differ."""
        return any(len(_values(one)) > 1 for one in self.groups)


def stored_batches(run: RunFolder, most: int) -> list[StoredBatch]:
    """Return the first steps with trained groups, without steps replaced by a resume.

    Raises:
        DatasetError: a line of its rollouts cannot be read.
    """
    versions = {event.step: event.version for event in step_events(run)}
    groups: dict[int, list[ScoredGroup]] = {}
    for one in read_rollouts(run.rollouts):
        if one.step in versions and not one.superseded:
            groups.setdefault(one.step, []).append(one)
            if len(groups) > most:
                del groups[max(groups)]
    return [
        StoredBatch(step, _policy(groups[step], versions[step]), tuple(groups[step]))
        for step in sorted(groups)
    ]


def living_groups(run: RunFolder) -> Iterator[ScoredGroup]:
    """Yield the trained groups of all steps of a run, without what a resume has replaced.

    Raises:
        DatasetError: a line of its rollouts cannot be read.
    """
    return (one for one in read_rollouts(run.rollouts) if not one.superseded)


def left_out_groups(run: RunFolder) -> Iterator[ScoredGroup]:
    """Yield the stored groups of a run without the trained ones, as `living_groups` does."""
    return (one for one in read_discarded(run.rollouts) if not one.superseded)


def step_events(run: RunFolder) -> list[StepEvent]:
    """Return the steps of a run, without those that a resume has replaced."""
    contents = (content(event) for event in living(run.read_events()))
    return [one for one in contents if isinstance(one, StepEvent)]


def _policy(groups: Sequence[ScoredGroup], version: int) -> PolicyVersion:
    known = {
        policy
        for scored in groups
        for rollout in scored.group.rollouts
        for policy in rollout.policies
        if policy.version == version
    }
    # Without a token of this version, its digest meets none, which is all that it is for.
    return next(iter(known), PolicyVersion(version=version, digest=""))


def with_rewards(batch: StoredBatch, change: Rewards, every: int = 1) -> StoredBatch:
    """Return the batch with other rewards by `change`; components follow.

    Of the groups with unequal rewards, `every` second or third one is changed.
    """
    groups, number = list(batch.groups), 0
    for place, scored in enumerate(groups):
        values = _values(scored)
        if (len(values) > 1 and number % every == 0) or every == 1:
            groups[place] = _changed(scored, change)
        number += len(values) > 1
    return replace(batch, groups=tuple(groups))


def _values(scored: ScoredGroup) -> set[float]:
    return {one.value for one in scored.rewards if isinstance(one, Scored)}


def _changed(scored: ScoredGroup, change: Rewards) -> ScoredGroup:
    places = [at for at, one in enumerate(scored.rewards) if isinstance(one, Scored)]
    known = [one for one in scored.rewards if isinstance(one, Scored)]
    names = [one.name for one in known[0].components] if known else []
    values = change([one.value for one in known])
    columns = {
        name: change([_component(one, name) for one in known])
        for name in names
        if all(any(part.name == name for part in one.components) for one in known)
    }
    rewards = list(scored.rewards)
    for index, (place, old) in enumerate(zip(places, known, strict=True)):
        parts = tuple(
            part.model_copy(update={"value": columns[part.name][index]})
            if part.name in columns
            else part
            for part in old.components
        )
        rewards[place] = old.model_copy(update={"value": values[index], "components": parts})
    return scored.model_copy(update={"rewards": tuple(rewards)})


def _component(scored: Scored, name: str) -> float:
    return next(part.value for part in scored.components if part.name == name)


def reward_values(batches: Sequence[StoredBatch]) -> list[float]:
    """Return the rewards of all scored answers, in order."""
    return [
        one.value
        for batch in batches
        for scored in batch.groups
        for one in scored.rewards
        if isinstance(one, Scored)
    ]
