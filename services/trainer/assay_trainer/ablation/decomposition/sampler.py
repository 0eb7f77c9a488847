"""What a change of settings does to the samples that are trained on, by the stored batches."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from assay_shared.types import FinishReason, Rollout
from assay_trainer.ablation.decomposition.batches import StoredBatch
from assay_trainer.ablation.decomposition.findings import SamplerFinding, SwitchVerdict
from assay_trainer.events import StepEvent
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.advantage import group_rewards
from assay_trainer.learner.normalisation.overlong import Overlong

_Told = tuple[SwitchVerdict, str, float | None]


@dataclass(frozen=True)
class SamplerFacts:
    """The settings of both arms, and the previous arm's stored batches with their events."""

    old: GRPOConfig
    new: GRPOConfig
    batches: Sequence[StoredBatch]
    events: Sequence[StepEvent]

    @property
    def rollouts(self) -> list[Rollout]:
        return [
            one for batch in self.batches for group in batch.groups for one in group.group.rollouts
        ]


def sampler_finding(changed: Collection[str], facts: SamplerFacts) -> SamplerFinding | None:
    """Return the finding on the changed settings; None if none of them touches the samples."""
    names = [name.removeprefix("grpo.") for name in sorted(changed)]
    told = [_RULES[name](facts) for name in names if name in _RULES]
    if any(name.startswith("curriculum") for name in names):
        told.append((SwitchVerdict.UNKNOWN, "the order of the tasks is another one", None))
    if not told:
        return None
    order = (SwitchVerdict.ACTS, SwitchVerdict.UNKNOWN, SwitchVerdict.NO_EFFECT)
    verdict, reason, jaccard = min(told, key=lambda one: order.index(one[0]))
    return SamplerFinding(verdict=verdict, reason=reason, jaccard=jaccard)


def _of_flat(facts: SamplerFacts) -> _Told:
    num_trained = sum(len(batch.groups) for batch in facts.batches)
    if facts.old.replace_flat:
        steps = {batch.step for batch in facts.batches}
        num_flat = sum(one.num_without_signal for one in facts.events if one.step in steps)
        what = "were replaced"
    else:
        num_flat = sum(
            not group_rewards(group, facts.new.normalise, Overlong.of(facts.new)).has_signal
            for batch in facts.batches
            for group in batch.groups
        )
        what = "would be replaced"
    if not num_trained:
        return SwitchVerdict.UNKNOWN, "no batch is stored", None
    shared = max(0, num_trained - num_flat) / (num_trained + num_flat)
    verdict = SwitchVerdict.ACTS if num_flat else SwitchVerdict.NO_EFFECT
    return verdict, f"{num_flat} groups of {num_trained} {what}", shared


def _of_max_tokens(facts: SamplerFacts) -> _Told:
    rollouts = facts.rollouts
    cut = sum(one.finish_reason is FinishReason.LENGTH for one in rollouts)
    most = facts.new.max_tokens
    longer = sum(one.num_sampled > most for one in rollouts if not one.turns)
    if cut or longer:
        reason = f"{cut} stored answers were cut off, {longer} are longer than {most} tokens"
        return SwitchVerdict.ACTS, reason, None
    if most < facts.old.max_tokens and any(one.turns for one in rollouts):
        return SwitchVerdict.UNKNOWN, "the length of each reply is not stored", None
    return SwitchVerdict.NO_EFFECT, "no stored answer reaches the limit", 1.0


def _of_most_groups(facts: SamplerFacts) -> _Told:
    least = min(facts.old.max_groups_per_step, facts.new.max_groups_per_step)
    most = max((one.num_without_signal + one.num_groups for one in facts.events), default=0)
    if most >= least:
        return SwitchVerdict.ACTS, f"a step had {most} groups, and a limit is {least}", None
    return SwitchVerdict.NO_EFFECT, f"no step has more than {most} groups", 1.0


def _of_hard_staleness(facts: SamplerFacts) -> _Told:
    if any(one.refused.get("too_old") for one in facts.events):
        return SwitchVerdict.ACTS, "groups were dropped as too old", None
    return SwitchVerdict.NO_EFFECT, "no group was dropped as too old", 1.0


def _always(verdict: SwitchVerdict, reason: str) -> Callable[[SamplerFacts], _Told]:
    return lambda facts: (verdict, reason, None)


_OTHER = _always(SwitchVerdict.ACTS, "other answers are sampled")
_RULES: dict[str, Callable[[SamplerFacts], _Told]] = {
    "temperature": _OTHER,
    "group_size": _OTHER,
    "groups_per_step": _always(SwitchVerdict.ACTS, "a step has another number of groups"),
    "steps": _always(SwitchVerdict.ACTS, "there are other numbers of updates"),
    "stop": _always(SwitchVerdict.UNKNOWN, "answers may end elsewhere"),
    "max_staleness": _always(SwitchVerdict.UNKNOWN, "answers may be of older weights"),
    "sync": _always(SwitchVerdict.UNKNOWN, "answers may be of several versions"),
    "max_tokens": _of_max_tokens,
    "max_groups_per_step": _of_most_groups,
    "hard_staleness": _of_hard_staleness,
    "replace_flat": _of_flat,
}
