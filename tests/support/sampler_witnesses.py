"""Witnesses of the sampler's fields: draws that a field changes, and draws that it must leave.

The draws are played by made-up policies that read the request: its number of answers, limit,
temperature and stops.
"""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from assay_shared.types import (
    FinishReason,
    Group,
    GroupRequest,
    PolicyVersion,
    RewardComponent,
    Rollout,
    RolloutSpan,
    Scored,
    ScoredGroup,
    Status,
)
from assay_trainer.curriculum.order import TaskOrder
from assay_trainer.curriculum.state import BatcherState
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.batcher import GroupBatcher
from assay_trainer.learner.normalisation.overlong import Overlong
from assay_trainer.learner.packs import rows
from assay_trainer.rollouts.set_aside import SetAside
from tests.support.fakes import make_task

#: Plays a request under the version that is served.
SamplerPolicy = Callable[[GroupRequest, int], ScoredGroup]
#: Group, tokens and advantage of each answer that is learnt, in order.
Learnt = list[tuple[str, tuple[int, ...], float]]

BASE: dict[str, object] = {
    "steps": 3,
    "groups_per_step": 4,
    "group_size": 4,
    "max_tokens": 8,
    "max_staleness": 1,
    "max_groups_per_step": 12,
    "max_failed_groups": 6,
}
_TASKS = [make_task(f"t{at}") for at in range(5)]


@dataclass(frozen=True)
class SamplerWitness:
    """A field's other value, with the draws on which it acts and those on which it may not."""

    name: str
    value: object
    acts_on: str
    acts: SamplerPolicy
    idle_on: str
    idle: SamplerPolicy
    #: Settings of both sides.
    base: Mapping[str, object] = field(default_factory=dict)
    idle_base: Mapping[str, object] = field(default_factory=dict)
    idle_steps: int = 3


def learnt(changes: Mapping[str, object], policy: SamplerPolicy, num_steps: int) -> Learnt:
    """Return what the first steps of a run learn."""
    config = GRPOConfig.model_validate({**BASE, **changes})
    played = _Played(policy)
    feed = GroupBatcher(
        played,  # type: ignore[arg-type]  # of the same shape
        TaskOrder(_TASKS, seed=0),
        config,
        run="run",
        seed=3,
        state=BatcherState(),
        set_aside=SetAside("training", len(_TASKS), 0.4, lambda _: None),
    )
    found: Learnt = []
    for version in range(1, num_steps + 1):
        played.version = version
        feed.serve(_version(version))
        groups = feed.next_batch().groups
        step_rows = rows(groups, config.normalise, Overlong.of(config))
        keys = {id(one): scored.group.key for scored in groups for one in scored.group.rollouts}
        found += [
            (keys[id(row.rollout)], row.rollout.token_ids, round(row.advantage, 9))
            for row in step_rows
        ]
    return found


class _Played:
    """Rollouts that are played when they are collected, in their order."""

    def __init__(self, policy: SamplerPolicy) -> None:
        self._policy = policy
        self._waiting: list[GroupRequest] = []
        self.version = 0

    @property
    def num_in_flight(self) -> int:
        return len(self._waiting)

    def send(self, request: GroupRequest) -> None:
        self._waiting.append(request)

    def collect(self, wait_s: float) -> list[ScoredGroup]:
        return [self._policy(self._waiting.pop(0), self.version)] if self._waiting else []


def _version(version: int) -> PolicyVersion:
    return PolicyVersion(version=version, digest=f"d{version}")


def _draw_of(request: GroupRequest) -> int:
    return int(request.key.split("/")[1])


def answers(longest: int, *, certain: bool = True, old: bool = False) -> SamplerPolicy:
    """Return a policy whose answers have up to `longest` letters, and whose rewards all differ.

    Letters are a, b, c and so on, each in upper case by chance unless the policy is certain. If it
    is `old`, every fourth group was begun under version 1, unless it is asked for again.
    """

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        draw = _draw_of(request)
        is_old = old and draw % 4 == 0 and request.key.count("/") == 4
        rollouts, rewards = [], []
        for at in range(request.sampling.n):
            letters = _letters(request, at, 2 + (3 * at + draw) % (longest - 1), certain=certain)
            rollouts.append(_rollout(request, letters, 1 if is_old else served, served))
            rewards.append(_reward((at + draw) % 3 / 2, (at * draw) % 4 / 3))
        return _group(request, rollouts, rewards)

    return play


def with_flat_groups(every: int) -> SamplerPolicy:
    """Return the policy of short answers, whose groups differ in rewards one time in `every`."""
    plain = answers(3)

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        scored = plain(request, served)
        if every and _draw_of(request) % every == 0:
            return scored
        equal = (_reward(1.0, 0.0),) * len(scored.rewards)
        return scored.model_copy(update={"rewards": equal})

    return play


def _letters(request: GroupRequest, at: int, length: int, *, certain: bool) -> str:
    sampling = request.sampling
    chance = random.Random(f"{sampling.seed}/{at}")
    upper = 0.0 if certain else 1 / (1 + math.exp(1 / sampling.temperature))
    letters = [chr(97 + place) for place in range(length)]
    said = "".join(one.upper() if chance.random() < upper else one for one in letters)
    ends = [place for stop in sampling.stop if (place := said.find(stop)) >= 0]
    return said[: min(ends, default=length)]


def _rollout(request: GroupRequest, letters: str, begun: int, served: int) -> Rollout:
    limit = request.sampling.max_tokens
    kept = letters[:limit]
    spans = [RolloutSpan(policy=_version(begun), num_tokens=1)]
    if len(kept) > 1:
        spans.append(RolloutSpan(policy=_version(served), num_tokens=len(kept) - 1))
    return Rollout(
        token_ids=tuple(map(ord, kept)),
        logprobs=(-0.5,) * len(kept),
        text=kept,
        finish_reason=FinishReason.LENGTH if len(letters) > limit else FinishReason.STOP,
        spans=tuple(spans),
    )


def _reward(right: float, style: float) -> Scored:
    parts = (
        RewardComponent(name="right", value=right, weight=1.0),
        RewardComponent(name="style", value=style, weight=0.25),
    )
    outcome = Status.ACCEPTED if right == 1.0 else Status.WRONG_ANSWER
    return Scored(value=right + 0.25 * style, outcome=outcome, components=parts)


def _group(request: GroupRequest, rollouts: list[Rollout], rewards: list[Scored]) -> ScoredGroup:
    return ScoredGroup(
        group=Group(
            key=request.key,
            task=request.task,
            prompt_token_ids=(1, 2, 3),
            rollouts=tuple(rollouts),
        ),
        rewards=tuple(rewards),
        scorer="test@0",
        worker="w",
    )


_ALL_FLAT = "no group has signal: nothing is learnt"
_SHORT = "all answers are short"
_LONG = "some answers are longer than the limit"
_SIGNAL = "all groups have signal"
_NORMALISATIONS = (
    "batch",
    "none",
    "rloo",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "components",
)

SAMPLER_WITNESSES = (
    SamplerWitness("groups_per_step", 5, _SIGNAL, answers(6), _ALL_FLAT, with_flat_groups(0)),
    SamplerWitness("group_size", 5, _SIGNAL, answers(6), _ALL_FLAT, with_flat_groups(0)),
    SamplerWitness(
        "max_groups_per_step",
        6,
        "one group in three has signal",
        with_flat_groups(3),
        _SIGNAL,
        answers(6),
    ),
    SamplerWitness(
        "replace_flat",
        False,
        "one group in three has signal",
        with_flat_groups(3),
        _SIGNAL,
        answers(6),
    ),
    SamplerWitness("max_tokens", 4, _LONG, answers(6), _SHORT, answers(3)),
    SamplerWitness(
        "stop", ("d",), "some answers have the stop", answers(6), "none has", answers(3)
    ),
    SamplerWitness(
        "temperature",
        0.5,
        "tokens have alternatives",
        answers(6, certain=False),
        "every token is certain",
        answers(6),
    ),
    SamplerWitness(
        "max_staleness",
        2,
        "three steps: workers are ahead",
        answers(6),
        "the first step: no weights are older",
        answers(6),
        idle_steps=1,
    ),
    SamplerWitness(
        "hard_staleness",
        1,
        "some answers began two versions ago",
        answers(6, old=True),
        "all answers are of one version",
        answers(6),
    ),
    SamplerWitness("overlong", {"kind": "filter"}, _LONG, answers(12), _SHORT, answers(3)),
    SamplerWitness(
        "overlong",
        {"kind": "punish", "tokens": 4},
        "some answers end in the zone",
        answers(6),
        "all answers end before the zone",
        answers(4),
    ),
    *(
        SamplerWitness(
            "normalise",
            value,
            "deviations differ between groups",
            answers(6),
            "all rewards are equal",
            with_flat_groups(0),
            idle_base={"replace_flat": False},
        )
        for value in _NORMALISATIONS
    ),
)
