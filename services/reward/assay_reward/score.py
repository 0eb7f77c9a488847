"""Scoring: which rubric, whose turn, asked before or not; alone, in batches, or as a stream."""

import asyncio
from collections.abc import AsyncIterator

from prometheus_client import CollectorRegistry, Counter, Histogram

from assay_reward.group import GroupScore, OnReward
from assay_reward.measurement import Instruments
from assay_reward.responses import Responses
from assay_reward.rubric import Rubric, Rubrics
from assay_shared.admission import Gate
from assay_shared.errors import AssayError, InvalidInput, Overloaded, to_failure
from assay_shared.metrics import LATENCY_BUCKETS_S
from assay_shared.together import together
from assay_shared.tracing import span
from assay_shared.types import (
    FailureClass,
    GroupFailed,
    PartialReward,
    ScoreBatch,
    ScoreBatchResponse,
    Scored,
    ScoreRequest,
    ScoreResponse,
    Unscored,
)


class RewardMetrics:
    """What was scored, what could not be, and what it took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.answers = Counter(
            "assay_reward_answers_total",
            "Answers, by rubric and outcome; failures by their class.",
            ["rubric", "outcome"],
            registry=registry,
        )
        self.score_s = Histogram(
            "assay_reward_score_seconds",
            "Time to score a group.",
            ["rubric"],
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.component_s = Histogram(
            "assay_reward_component_seconds",
            "Time to measure a component for a group.",
            ["rubric", "component"],
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )

    def count(self, rubric: Rubric, response: ScoreResponse) -> None:
        for reward in response.rewards:
            kind = reward.outcome if isinstance(reward, Scored) else reward.failure.failure_class
            self.answers.labels(rubric.name, kind).inc()
        for component in response.components:
            self.component_s.labels(rubric.name, component.name).observe(component.time_s)


class Scorer:
    """Implements `assay_shared.interfaces.Rewarder`."""

    def __init__(
        self,
        rubrics: Rubrics,
        instruments: Instruments,
        gate: Gate,
        responses: Responses,
        registry: CollectorRegistry,
    ) -> None:
        self._rubrics = rubrics
        self._instruments = instruments
        self._gate = gate
        self._responses = responses
        self._metrics = RewardMetrics(registry)

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        """One reward or failure per answer, in order.

        Raises:
            NotFound: the rubric is not known.
            InvalidInput: the task lacks what the rubric needs.
            Conflict: the request's key was used for another one.
            Overloaded: too many groups wait already, or a neighbour had room for no answer.
        """
        return await self._responses.once(request, lambda: self._score(request))

    async def score_batch(self, batch: ScoreBatch) -> ScoreBatchResponse:
        """As `score` for each; one that cannot be scored at all says so in its place."""

        async def score(request: ScoreRequest) -> ScoreResponse | GroupFailed:
            try:
                return await self.score(request)
            except AssayError as error:
                return GroupFailed(failure=to_failure(error, "reward"))

        responses = await together(score(request) for request in batch.requests)
        return ScoreBatchResponse(responses=tuple(responses))

    def stream(self, request: ScoreRequest) -> AsyncIterator[PartialReward | ScoreResponse]:
        """Each reward when it is known, in any order, and then the whole response.

        Raises:
            NotFound: the rubric is not known.
        """
        self._rubric(request)
        return self._stream(request)

    async def _stream(self, request: ScoreRequest) -> AsyncIterator[PartialReward | ScoreResponse]:
        partials: asyncio.Queue[PartialReward | None] = asyncio.Queue(len(request.answers) + 1)
        scoring = asyncio.create_task(self._score(request, partials.put_nowait))
        scoring.add_done_callback(lambda _: partials.put_nowait(None))
        try:
            while (partial := await partials.get()) is not None:
                yield partial
            yield await scoring
        finally:
            scoring.cancel()

    def _rubric(self, request: ScoreRequest) -> Rubric:
        name = request.rubric or request.task.rubric
        if not name:
            known = ", ".join(rubric.name for rubric in self._rubrics.all())
            raise InvalidInput("no rubric is named", field="rubric", hint=f"known: {known}")
        return self._rubrics.find(name)

    async def _score(
        self, request: ScoreRequest, on_reward: OnReward = lambda _: None
    ) -> ScoreResponse:
        rubric = self._rubric(request)
        async with self._gate.enter():
            group = GroupScore(rubric, request, self._instruments, on_reward)
            with (
                span("reward.score", rubric=rubric.name, answers=len(request.answers)),
                self._metrics.score_s.labels(rubric.name).time(),
            ):
                response = await group.run()
        self._metrics.count(rubric, response)
        if all(_was_refused(reward) for reward in response.rewards):
            failure = response.rewards[0].failure  # type: ignore[union-attr]  # none is Scored
            raise Overloaded(
                failure.message,
                service=failure.service,
                retry_after_s=max(group.retry_after_s, 1.0),
                attempts=failure.attempts,
            )
        return response


def _was_refused(reward: Scored | Unscored) -> bool:
    return isinstance(reward, Unscored) and (reward.failure.failure_class is FailureClass.OVERLOAD)
