"""Scoring a group by a rubric: every component of an answer is measured, or it has no reward."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from assay_reward.measurement import Instruments, Measured, Sitting
from assay_reward.rubric import Rubric, Rubrics
from assay_reward.verifiers import VERIFIERS
from assay_shared.admission import Gate
from assay_shared.metrics import LATENCY_BUCKETS_S
from assay_shared.together import together
from assay_shared.types import (
    Failure,
    Reward,
    RewardComponent,
    Scored,
    ScoreRequest,
    ScoreResponse,
    Status,
    Unscored,
)


class RewardMetrics:
    """What was scored, and what could not be."""

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


class Scorer:
    """Implements `assay_shared.interfaces.Rewarder`."""

    def __init__(
        self,
        rubrics: Rubrics,
        instruments: Instruments,
        gate: Gate,
        registry: CollectorRegistry,
    ) -> None:
        self._rubrics = rubrics
        self._instruments = instruments
        self._gate = gate
        self._metrics = RewardMetrics(registry)

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        """One reward or failure per answer, in order.

        Raises:
            NotFound: the rubric is not known.
            InvalidInput: the task lacks what the rubric needs.
            Overloaded: too many groups wait already.
        """
        rubric = self._rubrics.find(request.rubric or request.task.rubric)
        async with self._gate.enter():
            with self._metrics.score_s.labels(rubric.name).time():
                rewards = await self._rewards(rubric, request)
        for reward in rewards:
            kind = reward.outcome if isinstance(reward, Scored) else reward.failure.failure_class
            self._metrics.answers.labels(rubric.name, kind).inc()
        return ScoreResponse(rewards=tuple(rewards), scorer=rubric.scorer)

    async def _rewards(self, rubric: Rubric, request: ScoreRequest) -> list[Reward]:
        sitting = Sitting(request.task, request.answers, self._instruments)
        columns = await together(
            _measure(component.verifier, sitting) for component in rubric.components
        )
        return [combine(rubric, list(row)) for row in zip(*columns, strict=True)]


async def _measure(verifier: str, sitting: Sitting) -> list[Measured | Failure]:
    return await VERIFIERS[verifier](sitting)


def combine(rubric: Rubric, measured: list[Measured | Failure]) -> Reward:
    """The reward of one answer: the weighted sum, or the first failure among its components.

    A sum over the components that happen to be there would put a missing one at 0.
    """
    components = []
    outcome = Status.ACCEPTED
    for config, one in zip(rubric.components, measured, strict=True):
        if isinstance(one, Failure):
            return Unscored(failure=one)
        if outcome is Status.ACCEPTED:
            outcome = one.outcome
        components.append(
            RewardComponent(
                name=config.verifier, value=one.value, weight=config.weight, detail=one.detail
            )
        )
    value = sum(component.weight * component.value for component in components)
    return Scored(value=value, outcome=outcome, components=tuple(components))
