"""One group on its way to its rewards: the gates of all answers, then the rest of each."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay_reward.measurement import Instruments, Measured, Meter, Sitting
from assay_reward.rubric import ComponentConfig, Rubric
from assay_shared.context import log_fields
from assay_shared.errors import AssayError, InternalFault, InvalidInput, to_failure
from assay_shared.together import together
from assay_shared.tracing import span
from assay_shared.types import (
    ComponentReport,
    Failure,
    PartialReward,
    Reward,
    RewardComponent,
    Scored,
    ScoreRequest,
    ScoreResponse,
    Status,
    Unscored,
)

OnReward = Callable[[PartialReward], None]


@dataclass
class Effort(Meter):
    """What one component took for the whole group: its cost, and from when to when."""

    started_at: float | None = None
    ended_at: float = 0.0

    def begin(self) -> None:
        self.started_at = self.started_at or time.monotonic()

    def end(self) -> None:
        self.ended_at = time.monotonic()

    @property
    def time_s(self) -> float:
        return self.ended_at - self.started_at if self.started_at else 0.0


class GroupScore:
    """Scores one group once. `on_reward` gets each reward as soon as it is known."""

    def __init__(
        self,
        rubric: Rubric,
        request: ScoreRequest,
        instruments: Instruments,
        on_reward: OnReward = lambda _: None,
    ) -> None:
        self._rubric = rubric
        self._sitting = Sitting(
            request.task,
            request.answers,
            instruments,
            request.run,
            num_tokens=request.num_tokens,
            truncated=request.truncated,
        )
        self._on_reward = on_reward
        self._efforts = {component.label: Effort() for component in rubric.components}
        self._rewards: dict[int, Reward] = {}
        #: The longest wait that a neighbour without room has asked for.
        self.retry_after_s = 0.0

    async def run(self) -> ScoreResponse:
        """All rewards, in the order of the answers.

        Raises:
            InvalidInput: the task or the request lacks what a verifier needs.
        """
        rubric, sitting = self._rubric, self._sitting
        for component in rubric.components:
            if component.kind.needs_lengths and not sitting.num_tokens:
                raise InvalidInput(f"{component.label} needs lengths", field="num_tokens")
            component.kind.check(sitting.task, component.parsed_options)
        everyone = range(len(sitting.answers))
        sitting.admitted = tuple(everyone)
        for gate in rubric.gates:
            # What is measured once for all is measured for those whom the gates before let in.
            await together(self._pass(gate, index) for index in sitting.admitted)
            sitting.admitted = tuple(index for index in everyone if index not in self._rewards)
        await together(self._count(index) for index in sitting.admitted)
        return ScoreResponse(
            rewards=tuple(self._rewards[index] for index in everyone),
            scorer=rubric.scorer,
            normalise=rubric.normalise,
            components=tuple(
                ComponentReport(name=name, time_s=effort.time_s, cost=effort.cost)
                for name, effort in self._efforts.items()
            ),
        )

    async def _pass(self, gate: ComponentConfig, index: int) -> None:
        """Give the answer its reward if the gate does not let it through."""
        measured = await self._measure(gate, index)
        if isinstance(measured, Failure):
            self._settle(index, Unscored(failure=measured))
        elif gate.gate is not None and measured.value < gate.gate:
            self._settle(index, turned_away(self._rubric, gate, measured))

    async def _count(self, index: int) -> None:
        measured = await together(self._measure(one, index) for one in self._rubric.counted)
        self._settle(index, combine(self._rubric, measured))

    async def _measure(self, component: ComponentConfig, index: int) -> Measured | Failure:
        effort = self._efforts[component.label]
        candidate = self._sitting.candidate(index, effort)
        effort.begin()
        with log_fields(sample=index), span("reward.measure", component=component.label) as one:
            try:
                measured = await component.kind.measure(candidate, component.parsed_options)
                return measured if isinstance(measured, Failure) else _finite(measured, component)
            except AssayError as error:
                one.fail(str(error))
                self.retry_after_s = max(self.retry_after_s, error.retry_after_s or 0.0)
                return to_failure(error, "reward")
            finally:
                effort.end()

    def _settle(self, index: int, reward: Reward) -> None:
        self._rewards[index] = reward
        self._on_reward(PartialReward(index=index, reward=reward))


def _finite(measured: Measured, component: ComponentConfig) -> Measured:
    """Return what was measured.

    Raises:
        InternalFault: its value is not a finite number, and so no measurement.
    """
    if not math.isfinite(measured.value):
        raise InternalFault(f"{component.label} measured {measured.value}, not a finite number")
    return measured


def combine(rubric: Rubric, measured: Sequence[Measured | Failure]) -> Reward:
    """The reward of one answer, or the first failure among its components.

    A sum over the components that happen to be there would put a missing one at 0.
    """
    values = []
    outcome = Status.ACCEPTED
    for one in measured:
        if isinstance(one, Failure):
            return Unscored(failure=one)
        values.append(one)
        if outcome is Status.ACCEPTED:
            outcome = one.outcome
    return Scored(
        value=rubric.reward([one.value for one in values]),
        outcome=outcome,
        components=tuple(
            _component(config, one.value, one.detail)
            for config, one in zip(rubric.counted, values, strict=True)
        ),
    )


def turned_away(rubric: Rubric, gate: ComponentConfig, measured: Measured) -> Scored:
    """The lowest reward that the rubric can give; its other components are at their lowest."""
    detail = f"not measured: {gate.label} is {measured.value:g}, below its gate of {gate.gate:g}"
    wrong = measured.outcome is Status.ACCEPTED
    return Scored(
        value=rubric.reward(rubric.lowest_values),
        outcome=Status.WRONG_ANSWER if wrong else measured.outcome,
        components=(
            _component(gate, measured.value, measured.detail),
            *(_component(one, one.span.low, detail) for one in rubric.counted),
        ),
    )


def _component(config: ComponentConfig, value: float, detail: str) -> RewardComponent:
    weight = 0.0 if config.gate is not None else config.weight or 1.0
    return RewardComponent(
        name=config.label, value=config.span.clip(value), weight=weight, detail=detail
    )
