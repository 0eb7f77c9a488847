"""A stored sample with its prompt, answer, reward, advantage and origin."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay_shared.errors import NotFound
from assay_shared.types import Reward, Rollout, Scored, Task, Unscored
from assay_shared.types.failure import Failure
from assay_trainer.browser.reading.parsing import NO_SAMPLE
from assay_trainer.browser.reading.run_index import RunIndex
from assay_trainer.browser.samples.advantages import StoredAdvantages
from assay_trainer.config import RunConfig
from assay_trainer.rollouts.rollout_log import DiscardedGroup, TrainedGroup


@dataclass(frozen=True)
class SampleDetail:
    """A sample for people. `rollout` is None for a group that failed before it had samples.

    `advantage` is None for a sample that is not learnt; `no_advantage` says why it is not known.
    """

    group: TrainedGroup
    place: int
    rollout: Rollout | None
    reward: Reward | None
    failure: Failure | None
    advantage: float | None
    no_advantage: str
    reason: str

    @property
    def task(self) -> Task:
        return self.group.group.task

    @property
    def kept(self) -> str:
        """What became of the group: trained, discarded, or superseded by a resume."""
        if self.group.superseded:
            return "superseded"
        return "discarded" if self.reason else "trained"

    @property
    def versions(self) -> list[tuple[int, str]]:
        """The versions that sampled tokens of the answer, with the beginning of their digests."""
        found = self.rollout.policies if self.rollout else frozenset()
        return sorted((policy.version, policy.digest[:12]) for policy in found)

    @property
    def scored(self) -> Scored | None:
        return self.reward if isinstance(self.reward, Scored) else None

    @property
    def outcome(self) -> str:
        return self.reward.outcome.value if isinstance(self.reward, Scored) else "failed"


def sample_detail(
    index: RunIndex, config: RunConfig | None, group_id: int, place: int
) -> SampleDetail:
    """Return a sample of a group.

    Raises:
        NotFound: there is no such group or sample.
        DatasetError: the group's line is damaged.
    """
    group = index.group(group_id)
    rollouts = group.group.rollouts
    if place not in (range(len(rollouts)) or (NO_SAMPLE,)):
        raise NotFound(f"the group has {len(rollouts)} samples, and none at place {place}")
    found, why_none = StoredAdvantages(index, config).of(group, group_id)
    return detail_of(group, place, found, why_none)


def group_details(index: RunIndex, known: StoredAdvantages, group_id: int) -> list[SampleDetail]:
    """Return all samples of a group; one without a rollout if it failed before it had samples.

    Raises:
        NotFound: its file is gone.
        DatasetError: the group's line is damaged.
    """
    group = index.group(group_id)
    found, why_none = known.of(group, group_id)
    places = range(len(group.group.rollouts)) or (NO_SAMPLE,)
    return [detail_of(group, place, found, why_none) for place in places]


def detail_of(
    group: TrainedGroup, place: int, found: Sequence[float | None], why_none: str
) -> SampleDetail:
    """Return a sample of a group whose advantages are known already."""
    rollouts = group.group.rollouts
    reward = group.rewards[place] if 0 <= place < len(group.rewards) else None
    failure = reward.failure if isinstance(reward, Unscored) else None
    return SampleDetail(
        group=group,
        place=place,
        rollout=rollouts[place] if 0 <= place < len(rollouts) else None,
        reward=reward,
        failure=failure or (group.failure if reward is None else None),
        advantage=found[place] if 0 <= place < len(found) else None,
        no_advantage=why_none,
        reason=group.reason if isinstance(group, DiscardedGroup) else "",
    )


def sample_json(one: SampleDetail) -> dict[str, object]:
    """Return a sample as JSON for programs."""
    return {
        "step": one.group.step,
        "key": one.group.group.key,
        "place": one.place,
        "task": one.task.id,
        "dataset": one.task.dataset,
        "tags": one.task.tags,
        "prompt": one.task.prompt,
        "answer": None if one.rollout is None else one.rollout.answer,
        "outcome": one.outcome,
        "reward": one.scored.value if one.scored else None,
        "components": [part.model_dump() for part in one.scored.components] if one.scored else [],
        "evidence": {} if one.reward is None else one.reward.evidence,
        "measures": {} if one.reward is None else one.reward.measures,
        "group_costs": [cost.model_dump() for cost in one.group.costs],
        "failure": None if one.failure is None else one.failure.model_dump(mode="json"),
        "advantage": one.advantage,
        "reason": one.reason or None,
        "superseded": one.group.superseded,
        "versions": [version for version, _ in one.versions],
        "num_tokens": one.rollout.num_sampled if one.rollout else 0,
        "finish_reason": one.rollout.finish_reason.value if one.rollout else None,
        "scorer": one.group.scorer,
        "generate_time_s": one.group.generate_time_s,
        "score_time_s": one.group.score_time_s,
    }
