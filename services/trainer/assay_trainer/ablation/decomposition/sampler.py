"""The effect of changed settings on trained samples, by the records of all runs."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from assay_shared.types import FinishReason, ScoredGroup
from assay_trainer.ablation.decomposition.findings import SamplerFinding, SwitchVerdict
from assay_trainer.events import StepEvent
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.advantage import group_rewards
from assay_trainer.learner.normalisation.overlong import Overlong

_Told = tuple[SwitchVerdict, str, float | None]


@dataclass(frozen=True)
class SampleCounts:
    """What stored groups tell of a change. They are counted one by one: runs are long."""

    num_groups: int = 0
    #: Groups without signal under the new settings.
    num_flat: int = 0
    #: Answers cut off at the old limit, and those longer than the new one.
    num_cut: int = 0
    num_longer: int = 0
    #: Answers with a text that would end them now.
    num_stopped: int = 0
    #: All groups, those left out too.
    num_stored: int = 0
    #: True if an answer has several replies.
    has_turns: bool = False

    @classmethod
    def of(
        cls,
        groups: Iterable[ScoredGroup],
        new: GRPOConfig,
        left_out: Iterable[ScoredGroup] = (),
    ) -> "SampleCounts":
        """Return the counts of trained groups for a change to new settings.

        Of groups left out, answers count, and the groups do not.
        """
        num_groups = num_flat = num_cut = num_longer = num_stopped = num_stored = 0
        has_turns = False
        marked = chain(((one, True) for one in groups), ((one, False) for one in left_out))
        for group, is_trained in marked:
            num_stored += 1
            if is_trained:
                num_groups += 1
                num_flat += not group_rewards(group, new.normalise, Overlong.of(new)).has_signal
            for one in group.group.rollouts:
                num_cut += one.finish_reason is FinishReason.LENGTH
                num_longer += one.num_sampled > new.max_tokens and not one.turns
                num_stopped += any(text in one.text for text in new.stop)
                has_turns = has_turns or bool(one.turns)
        return cls(num_groups, num_flat, num_cut, num_longer, num_stopped, num_stored, has_turns)


@dataclass(frozen=True)
class SamplerFacts:
    """The settings of both arms, and the records of all finished seeds of the previous arm."""

    old: GRPOConfig
    new: GRPOConfig
    counts: SampleCounts
    events: Sequence[StepEvent]


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


def acts_by_answers(changed: Collection[str]) -> bool:
    """Return True if settings act by the trained answers alone."""
    return all(name == "grpo.stop" or name.startswith("curriculum") for name in changed)


def _of_flat(facts: SamplerFacts) -> _Told:
    num_trained = facts.counts.num_groups
    num_flat = sum(one.num_without_signal + one.num_flat_before for one in facts.events)
    what = "were replaced"
    if facts.old.replace_flat:
        num_flat = max(num_flat, sum(one.num_replaced for one in facts.events))
    else:
        num_flat, what = max(num_flat, facts.counts.num_flat), "would be replaced"
    if not num_trained:
        return SwitchVerdict.UNKNOWN, "no batch is stored", None
    shared = max(0, num_trained - num_flat) / (num_trained + num_flat)
    verdict = SwitchVerdict.ACTS if num_flat else SwitchVerdict.NO_EFFECT
    return verdict, f"{num_flat} groups of {num_trained} {what}", shared


def _of_max_tokens(facts: SamplerFacts) -> _Told:
    counts, most = facts.counts, facts.new.max_tokens
    if counts.num_cut or counts.num_longer:
        reason = (
            f"{counts.num_cut} stored answers were cut off, "
            f"{counts.num_longer} are longer than {most} tokens"
        )
        return SwitchVerdict.ACTS, reason, None
    # Files of groups have a size limit, so the older answers may be in the events alone.
    if any(one.truncated_share for one in facts.events):
        return SwitchVerdict.ACTS, "answers that are no longer stored were cut off", None
    if most < facts.old.max_tokens and counts.has_turns:
        return SwitchVerdict.UNKNOWN, "the length of each reply is not stored", None
    longest = max((one.length_max or 0 for one in facts.events), default=0)
    if longest > most and not counts.has_turns:
        return SwitchVerdict.ACTS, f"an answer had {longest} tokens", None
    return SwitchVerdict.NO_EFFECT, "no answer reaches the limit", 1.0


def _of_stop(facts: SamplerFacts) -> _Told:
    counts = facts.counts
    if not set(facts.old.stop) <= set(facts.new.stop):
        return SwitchVerdict.UNKNOWN, "answers may be longer", None
    if counts.num_stopped:
        reason = f"{counts.num_stopped} stored answers have a text of it"
        return SwitchVerdict.ACTS, reason, None
    num_played = sum(one.num_played for one in facts.events)
    if counts.has_turns or counts.num_stored < num_played:
        reason = f"no answer of the {counts.num_stored} stored groups has a text of it; "
        what = "replies" if counts.has_turns else f"the other {num_played - counts.num_stored}"
        return SwitchVerdict.UNKNOWN, f"{reason}{what} are not stored", None
    return SwitchVerdict.NO_EFFECT, "no answer has a text of it", 1.0


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
    "stop": _of_stop,
    "max_staleness": _always(SwitchVerdict.UNKNOWN, "answers may be of older weights"),
    "sync": _always(SwitchVerdict.UNKNOWN, "answers may be of several versions"),
    "max_tokens": _of_max_tokens,
    "max_groups_per_step": _of_most_groups,
    "hard_staleness": _of_hard_staleness,
    "replace_flat": _of_flat,
}
