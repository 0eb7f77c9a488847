"""Scoring of a group: first the gates of all answers, then the other components."""

import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from assay_reward.instruments import ComponentUsage, Instruments
from assay_reward.long_texts import most_at_once, start_measuring
from assay_reward.pace import Pace
from assay_reward.rubric import ComponentConfig, OnTooHard, Rubric
from assay_reward.verifiers.verifier import Found, GroupContext, Measurement
from assay_shared.errors import AssayError, InternalFault, InvalidInput, TooHard, to_failure
from assay_shared.runtime.gather import gather
from assay_shared.telemetry.context import log_fields
from assay_shared.telemetry.tracing import span
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
Waiting = Coroutine[Any, Any, Found]
_MAX_DETAIL = 200


@dataclass
class Effort(ComponentUsage):
    """Usage of a component by the whole group: its cost, its first start and its last end."""

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
    """The scoring of a single group. `on_reward` gets each reward as soon as it is known."""

    def __init__(
        self,
        rubric: Rubric,
        request: ScoreRequest,
        instruments: Instruments,
        pace: Pace,
        on_reward: OnReward | None = None,
    ) -> None:
        self._rubric = rubric
        self._pace = pace
        self._group = GroupContext(request.task, request.answers, instruments, request.run)
        self._on_reward = on_reward
        self._efforts = {component.label: Effort() for component in rubric.components}
        self._at_once: dict[str, float] = {}
        self._rewards: dict[int, Reward] = {}
        #: Rewards by their measurements: most answers of a group have the same.
        self._combined: dict[tuple[Found, ...], Reward] = {}
        #: The longest `retry_after_s` among the errors of this group.
        self.retry_after_s = 0.0
        #: Number of answers too hard to measure, by component.
        self.num_too_hard: dict[str, int] = {}

    async def run(self) -> ScoreResponse:
        """Return all rewards, in the order of the answers.

        Raises:
            InvalidInput: the task or the request lacks data needed by a verifier.
        """
        self._check()
        for gate in self._rubric.gates:
            await self._pass_gate(gate)
        await self._measure_components()
        return self._response()

    def _check(self) -> None:
        """Check the task and the request for all components before any work."""
        for component in self._rubric.components:
            if component.kind.needs_lengths:
                self._check_lengths(component.label)
            component.kind.check(self._group.task, component.parsed_options)
            if component.kind.inner is not None:
                instruments = self._group.instruments
                instruments.inner.check(component.kind.inner(self._group.task))
            self._at_once[component.label] = most_at_once(self._group, component)

    def _check_lengths(self, label: str) -> None:
        for index, answer in enumerate(self._group.answers):
            if answer.num_tokens is None:
                field = f"answers.{index}.num_tokens"
                raise InvalidInput(f"{label} needs the length of each answer", field=field)

    def _response(self) -> ScoreResponse:
        return ScoreResponse(
            rewards=tuple(self._rewards[index] for index in range(len(self._group.answers))),
            scorer=self._rubric.scorer,
            components=tuple(
                ComponentReport(name=name, time_s=effort.time_s, cost=effort.cost)
                for name, effort in self._efforts.items()
            ),
        )

    async def _pass_gate(self, gate: ComponentConfig) -> None:
        """Settle the rewards of all answers rejected by the gate.

        Measurements shared by the group cover the answers admitted by earlier gates.
        """
        waiting = []
        for index in self._group.admitted:
            await self._pace.turn()
            started = self._start(gate, index)
            if isinstance(started, Measurement | Failure):
                self._pass(gate, index, started)
            else:
                waiting.append(self._pass_later(gate, index, started))
        if waiting:
            await gather(waiting)
        self._group.rejected.update(self._rewards)

    async def _pass_later(self, gate: ComponentConfig, index: int, started: Waiting) -> None:
        self._pass(gate, index, await started)

    def _pass(self, gate: ComponentConfig, index: int, measured: Found) -> None:
        if isinstance(measured, Failure):
            self._settle(index, Unscored(failure=measured))
        elif gate.gate is not None and measured.value < gate.gate:
            self._settle(index, gate_failed(self._rubric, gate, measured))

    async def _measure_components(self) -> None:
        """Settle the rewards of the admitted answers, at once or after pending measurements."""
        waiting = []
        for index in self._group.admitted:
            await self._pace.turn()
            started = [self._start(component, index) for component in self._rubric.counted]
            found = [one for one in started if isinstance(one, Measurement | Failure)]
            if len(found) == len(started):
                self._settle(index, self._combine(tuple(found)))
            else:
                waiting.append(self._finish(index, started))
        if waiting:
            await gather(waiting)

    def _combine(self, measured: tuple[Found, ...]) -> Reward:
        if any(isinstance(one, Failure) for one in measured):
            return combine(self._rubric, measured)
        reward = self._combined.get(measured)
        if reward is None:
            reward = self._combined[measured] = combine(self._rubric, measured)
        return reward

    async def _finish(self, index: int, started: list[Found | Waiting]) -> None:
        waiting = [one for one in started if not isinstance(one, Measurement | Failure)]
        rest = iter(await gather(waiting))
        measured = [
            one if isinstance(one, Measurement | Failure) else next(rest) for one in started
        ]
        self._settle(index, combine(self._rubric, measured))

    def _start(self, component: ComponentConfig, index: int) -> Found | Waiting:
        """Return a component's finding about an answer, or a coroutine for the remaining work."""
        effort = self._efforts[component.label]
        candidate = self._group.candidate(index, effort)
        effort.begin()
        try:
            found = start_measuring(candidate, component, self._at_once[component.label])
            if isinstance(found, Measurement):
                found = _finite(found, component)
        except AssayError as error:
            found = self._unmeasured(component, error)
        if isinstance(found, Measurement | Failure):
            effort.end()
            return found
        return self._wait(component, index, found)

    async def _wait(self, component: ComponentConfig, index: int, found: Awaitable[Found]) -> Found:
        with log_fields(sample=index), span("reward.measure", component=component.label) as one:
            try:
                return _finite(await found, component)
            except AssayError as error:
                one.fail(str(error))
                return self._unmeasured(component, error)
            finally:
                self._efforts[component.label].end()

    def _unmeasured(self, component: ComponentConfig, error: AssayError) -> Found:
        """Return the lowest value if the error is TooHard and counts as wrong, else a failure."""
        if isinstance(error, TooHard):
            number = self.num_too_hard.get(component.label, 0)
            self.num_too_hard[component.label] = number + 1
            if self._rubric.too_hard is OnTooHard.WRONG:
                lowest = component.kind.span(component.parsed_options).low
                return Measurement(lowest, Status.WRONG_ANSWER, f"too hard: {error}"[:_MAX_DETAIL])
        self.retry_after_s = max(self.retry_after_s, error.retry_after_s or 0.0)
        return to_failure(error, "reward")

    def _settle(self, index: int, reward: Reward) -> None:
        reward = self._rewards[index] = self._with_notes(index, reward)
        if self._on_reward is not None:
            self._on_reward(PartialReward(index=index, reward=reward))

    def _with_notes(self, index: int, reward: Reward) -> Reward:
        measures, evidence = self._group.measures.get(index), self._group.evidence.get(index)
        if not measures and not evidence:
            return reward
        return reward.model_copy(update={"measures": measures or {}, "evidence": evidence or {}})


def _finite(measured: Found, component: ComponentConfig) -> Found:
    """Return the measurement unchanged.

    Raises:
        InternalFault: the value is not a finite number.
    """
    if isinstance(measured, Measurement) and not math.isfinite(measured.value):
        raise InternalFault(f"{component.label} measured {measured.value}, not a finite number")
    return measured


def combine(rubric: Rubric, measured: Sequence[Measurement | Failure]) -> Reward:
    """Return the reward of an answer, or the first failure among its components.

    A sum over the available components alone would count a missing component as 0.
    """
    values: list[float] = []
    components: list[RewardComponent] = []
    outcome = Status.ACCEPTED
    for config, one in zip(rubric.counted, measured, strict=True):
        if isinstance(one, Failure):
            return Unscored(failure=one)
        values.append(one.value)
        components.append(_component(config, one.value, one.detail))
        if outcome is Status.ACCEPTED:
            outcome = one.outcome
    value = rubric.reward(values)
    return Scored(value=value, outcome=outcome, components=tuple(components))


def gate_failed(rubric: Rubric, gate: ComponentConfig, measured: Measurement) -> Scored:
    """Return the rubric's lowest reward, with all counted components at their lowest values."""
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
