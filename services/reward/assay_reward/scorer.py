"""Scoring of single groups, batches and streams, with a limit on groups in flight."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Histogram

from assay_reward.group import GroupScore, OnReward
from assay_reward.idempotency import ResponseCache
from assay_reward.instruments import InnerScore, Instruments
from assay_reward.pace import Pace
from assay_reward.rubric import Rubric, Rubrics
from assay_shared.errors import AssayError, InvalidInput, NotFound, Overloaded, to_failure
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.runtime.gather import gather
from assay_shared.telemetry.context import client, request_id
from assay_shared.telemetry.metrics import LATENCY_BUCKETS_S
from assay_shared.telemetry.tracing import span
from assay_shared.types import (
    FailureClass,
    GroupFailed,
    PartialReward,
    ScoreBatch,
    ScoreBatchResponse,
    Scored,
    ScoreRequest,
    ScoreResponse,
    Task,
    Unscored,
)


class RewardMetrics:
    """Prometheus metrics of scoring: outcomes, times, and answers too hard to measure."""

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

        self.too_hard = Counter(
            "assay_reward_too_hard_total",
            "Answers that took too much time or memory, by the component that measured them.",
            ["rubric", "component"],
            registry=registry,
        )
        #: Cached, because looking up the labels of a metric costs more than counting.
        self._score_s = lru_cache(maxsize=None)(self.score_s.labels)
        self._component_s = lru_cache(maxsize=None)(self.component_s.labels)
        self._answers = lru_cache(maxsize=None)(self.answers.labels)

    def count(self, rubric: Rubric, response: ScoreResponse, took_s: float) -> None:
        self._score_s(rubric.name).observe(took_s)
        kinds: dict[str, int] = {}
        for reward in response.rewards:
            if isinstance(reward, Scored):
                kind: str = reward.outcome
            else:
                kind = reward.failure.failure_class
            kinds[kind] = kinds.get(kind, 0) + 1
        for kind, number in kinds.items():
            self._answers(rubric.name, kind).inc(number)
        for component in response.components:
            self._component_s(rubric.name, component.name).observe(component.time_s)


class Scorer:
    """The scorer of the service; implements `assay_shared.interfaces.Rewarder`."""

    def __init__(
        self,
        rubrics: Rubrics,
        instruments: Instruments,
        gate: FairLimiter,
        responses: ResponseCache,
        registry: CollectorRegistry,
    ) -> None:
        self._rubrics = rubrics
        self._instruments = instruments
        self._gate = gate
        self._responses = responses
        self._metrics = RewardMetrics(registry)
        self._pace = Pace()
        instruments.inner.provide(self._score_inner, self._check_inner)

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        """Return one reward or failure per answer, in order.

        Raises:
            NotFound: no rubric has this name.
            InvalidInput: no rubric is named, or the task lacks data needed by the rubric.
            Conflict: the request's key was used for another request.
            Overloaded: too many groups wait already, or the sandbox or judge had no room for any
                answer.
        """
        return await self._responses.once(request, lambda: self._score(request))

    async def score_batch(self, batch: ScoreBatch) -> ScoreBatchResponse:
        """Score each request as `score` does, with a `GroupFailed` for each error."""

        async def score(request: ScoreRequest) -> ScoreResponse | GroupFailed:
            try:
                return await self.score(request)
            except AssayError as error:
                return GroupFailed(failure=to_failure(error, "reward"))

        responses = await gather(score(request) for request in batch.requests)
        return ScoreBatchResponse(responses=tuple(responses))

    def stream(self, request: ScoreRequest) -> AsyncIterator[PartialReward | ScoreResponse]:
        """Return an iterator over the rewards as they become known, then the whole response.

        Raises:
            NotFound: no rubric has this name.
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

    def _check_inner(self, task: Task) -> None:
        """Check the task of an inner answer before anything is paid for the outer answer.

        Raises:
            InvalidInput: the rubric cannot score it.
        """
        field = "task.environment.instance.rubric"
        try:
            rubric = self._rubrics.find(task.rubric)
        except NotFound as error:
            raise InvalidInput(error.message, field=field, hint=error.hint) from None
        for component in rubric.components:
            if component.kind.inner is not None or component.kind.needs_lengths:
                raise InvalidInput(
                    f"{rubric.name} cannot score an answer inside an answer",
                    field=field,
                    hint="for example math, choice, qa or code.sparse",
                )
            component.kind.check(task, component.parsed_options)

    async def _score_inner(self, request: ScoreRequest) -> InnerScore:
        rubric = self._rubric(request)
        response = await GroupScore(rubric, request, self._instruments, self._pace).run()
        info = rubric.info()
        return InnerScore(response, info.lowest, info.highest)

    async def _score(
        self, request: ScoreRequest, on_reward: OnReward | None = None
    ) -> ScoreResponse:
        rubric = self._rubric(request)
        async with self._gate.enter(client(), request_id()):
            began = time.perf_counter()
            group = GroupScore(rubric, request, self._instruments, self._pace, on_reward)
            with span("reward.score", rubric=rubric.name, answers=len(request.answers)):
                response = await group.run()
        self._metrics.count(rubric, response, time.perf_counter() - began)
        for component, number in group.num_too_hard.items():
            self._metrics.too_hard.labels(rubric.name, component).inc(number)
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
