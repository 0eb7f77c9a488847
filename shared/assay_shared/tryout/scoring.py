"""Scores the groups by `POST` to the reward service, and by usual practice next to it."""

import asyncio
from collections.abc import Callable, Sequence

from assay_shared.clients import RewardClient
from assay_shared.clients.batching import score_groups
from assay_shared.errors import InternalFault
from assay_shared.tryout.given import TrialGroup
from assay_shared.tryout.trial_services import TrialServices
from assay_shared.tryout.usual_practice import PRACTICES, UsualPractice
from assay_shared.types import (
    GroupFailed,
    Reward,
    Scored,
    ScoreRequest,
    ScoreResponse,
)
from assay_shared.verdicts.compared import ComparedAnswer, ComparedGroup, GivenReward

_PARALLEL_GROUPS = 6
_GIVE_UP_AFTER_S = 30.0
_MOST_KILLS = 3

OnScored = Callable[[int], None]


class Scoring:
    """Scores groups with running services; `on_scored` gets the number of new verdicts."""

    def __init__(
        self,
        services: TrialServices,
        reward: RewardClient,
        usual: UsualPractice,
        on_scored: OnScored,
    ) -> None:
        """Store what scores the answers."""
        self._services = services
        self._reward = reward
        self._usual = usual
        self._on_scored = on_scored

    async def score_all(self, groups: Sequence[TrialGroup]) -> list[ComparedGroup]:
        """Return all groups with both rewards, in order.

        A group whose sandbox is killed is scored after the others.

        Raises:
            InfrastructureError: a service does not answer.
            InternalFault: a kill came too late each time.
        """
        found: dict[int, ComparedGroup] = {}
        places = asyncio.Semaphore(_PARALLEL_GROUPS)

        async def score(at: int, group: TrialGroup) -> None:
            async with places:
                found[at] = await self._score(group)

        numbered = list(enumerate(groups))
        # Formulas first: the processes that compare them take seconds to start.
        first = sorted(numbered, key=lambda one: one[1].task.rubric != "math")
        await asyncio.gather(*(score(at, one) for at, one in first if not one.killed_answer))
        for at, group in numbered:
            if group.killed_answer:
                found[at] = await self._score_and_kill(group, group.killed_answer - 1)
        return [found[at] for at in range(len(groups))]

    async def _score(self, group: TrialGroup) -> ComparedGroup:
        response, usual = await asyncio.gather(
            self._reward.score(request_of(group)),
            asyncio.gather(*(self._usual.reward(group.task, one.text) for one in group.answers)),
        )
        self._on_scored(len(group.answers))
        return compared(group, response.rewards, usual)

    async def _score_and_kill(self, group: TrialGroup, last: int) -> ComparedGroup:
        """Score a group while the sandbox is killed under its answer at `last`; then again.

        The answers before the kill are scored. After it the sandbox starts again, and the whole
        group is requested again, as a trainer does.
        """
        others = [one for at, one in enumerate(group.answers) if at != last]
        usual = list(
            await asyncio.gather(*(self._usual.reward(group.task, one.text) for one in others))
        )
        for _ in range(_MOST_KILLS):
            running = asyncio.create_task(self._usual.reward(group.task, group.answers[last].text))
            first = await self._first_rewards(group, last)
            usual_last = await running
            await self._services.start_sandbox()
            if not isinstance(first[last], Scored):
                break
        else:
            raise InternalFault("the answer ended before the sandbox was killed", field="answers")
        (again,) = await score_groups(
            self._reward, [request_of(group)], give_up_after_s=_GIVE_UP_AFTER_S
        )
        if isinstance(again, GroupFailed):
            raise InternalFault(again.failure.message)
        self._on_scored(len(group.answers))
        usual.insert(last, usual_last)
        earlier = {at: given(one) for at, one in enumerate(first) if not isinstance(one, Scored)}
        return compared(group, again.rewards, usual, earlier)

    async def _first_rewards(self, group: TrialGroup, last: int) -> Sequence[Reward]:
        """Return the rewards of a group; the sandbox is killed when only `last` still runs."""
        known: set[int] = set()
        async for part in self._reward.score_stream(request_of(group)):
            if isinstance(part, ScoreResponse):
                return part.rewards
            known.add(part.index)
            if last not in known and len(known) == len(group.answers) - 1:
                self._services.kill_sandbox()
        raise InternalFault("the stream of rewards ended without a response", service="reward")


def request_of(group: TrialGroup) -> ScoreRequest:
    """Return the request to score a group."""
    return ScoreRequest(task=group.task, answers=tuple(one.text for one in group.answers))


def compared(
    group: TrialGroup,
    rewards: Sequence[Reward],
    usual: Sequence[GivenReward],
    earlier: dict[int, GivenReward] | None = None,
) -> ComparedGroup:
    """Return a group with both rewards of each answer, and with `earlier` ones by place."""
    before = earlier or {}
    return ComparedGroup(
        name=group.name,
        prompt=group.task.prompt,
        rubric=f"rubric {group.task.rubric}",
        practice=PRACTICES[group.task.rubric],
        answers=tuple(
            ComparedAnswer(
                text=one.text,
                assay=given(reward),
                usual=theirs,
                nature=one.nature,
                note=one.note,
                earlier=(before[at],) if at in before else (),
            )
            for at, (one, reward, theirs) in enumerate(
                zip(group.answers, rewards, usual, strict=True)
            )
        ),
    )


def given(reward: Reward) -> GivenReward:
    """Return a reward of the reward service with its verdict in a few words."""
    if isinstance(reward, Scored):
        details = [one.detail for one in reward.components if one.detail]
        return GivenReward(reward.value, reward.outcome.replace("_", " "), "; ".join(details))
    failure = reward.failure
    return GivenReward(None, f"failed ({failure.failure_class})", failure.message)
