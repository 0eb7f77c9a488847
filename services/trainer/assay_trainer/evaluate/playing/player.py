"""Playing the tasks of an evaluation in this process: generate, score, and turn into records.

A unit is the work of a call: some samples of a task. A failure is never a score: it is stored in
the place of the samples that it cost, and asked for again when the command is started again.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from assay_shared.interfaces import Generator, RewardService
from assay_shared.types import (
    ComponentReport,
    Failure,
    FailureClass,
    FinishReason,
    GroupRequest,
    PolicyVersion,
    Priority,
    Reward,
    Rollout,
    SamplingParams,
    Scored,
    ScoredGroup,
    ScoreRequest,
    ScoreResponse,
    Status,
    StepRequest,
    StepResponse,
    Task,
)
from assay_trainer.evaluate.sets import asked
from assay_trainer.evaluation.evaluator import only_of
from assay_trainer.evaluation.records import protocol as protocols
from assay_trainer.evaluation.records.sample_record import RoundRecord, SampleRecord
from assay_trainer.rollouts.worker import run_group

_TESTS = re.compile(r"(\d+)/(\d+) tests passed")
_SEED_OF_SET, _SEED_OF_TASK, _SEED_OF_UNIT = 7_368_787, 86_028_121, 15_485_867
_SEEDS = 2**31


@dataclass(frozen=True)
class PlayUnit:
    """Samples `first` to `first + num` of a task; `place` is the task's number in its set."""

    task: Task
    place: int
    first: int
    num: int
    max_tokens: int
    #: Indices that have a score. A source with a request for each sample leaves them out; one with
    #: a request for all asks for them again, as the seeds of the others come from their places.
    known: Collection[int] = ()

    @property
    def indices(self) -> range:
        return range(self.first, self.first + self.num)


class Answering(Protocol):
    """A source of a generator for each unit, and the version that it must sample by, if any.

    `uncounted` returns the indices of the unit's samples whose tokens nobody has counted.
    """

    @property
    def version(self) -> PolicyVersion | None: ...

    @property
    def asks_each(self) -> bool:
        """Return True if each sample has a request, not each unit."""
        ...

    def generator(self, unit: PlayUnit, set_name: str) -> Generator: ...

    def uncounted(self, unit: PlayUnit, set_name: str) -> Collection[int]: ...


@dataclass
class Metered:
    """A reward service with the reports of its measurements, for a unit.

    It is told no tokens of the answers at `uncounted`: a rubric that needs them has to say so.
    """

    inner: RewardService
    uncounted: Collection[int] = ()
    reports: list[ComponentReport] = field(default_factory=list)
    #: The replies of the environment, by the turns before them.
    steps: dict[tuple[str, ...], StepResponse] = field(default_factory=dict)

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        answers = tuple(
            one.model_copy(update={"num_tokens": None}) if place in self.uncounted else one
            for place, one in enumerate(request.answers)
        )
        response = await self.inner.score(request.model_copy(update={"answers": answers}))
        self.reports += response.components
        return response

    async def step(self, request: StepRequest) -> StepResponse:
        response = await self.inner.step(request)
        self.steps[request.turns] = response
        return response


@dataclass(frozen=True)
class UnitPlayer:
    """Plays units of a set under a protocol."""

    name: str
    set_name: str
    protocol: protocols.Protocol
    answering: Answering
    rewarder: RewardService

    async def play(self, unit: PlayUnit) -> tuple[list[SampleRecord], str]:
        """Return the unit's samples in order, and the scorer; failures stand in their places."""
        uncounted = self.answering.uncounted(unit, self.set_name)
        metered = Metered(self.rewarder, [index - unit.first for index in uncounted])
        generator = self.answering.generator(unit, self.set_name)
        scored = await run_group(self._request(unit), generator, metered, "assay evaluate")
        if self.answering.version is not None and scored.failure is None:
            scored = only_of(self.answering.version, scored)
        records = [
            one.model_copy(update={"num_tokens": None}) if one.index in uncounted else one
            for one in records_of(unit, scored, metered.reports)
        ]
        if self.protocol.kind is protocols.ProtocolKind.REPAIR:
            records = [_with_rounds(one, unit, scored, metered.steps) for one in records]
        return records, scored.scorer

    def _request(self, unit: PlayUnit) -> GroupRequest:
        protocol = self.protocol
        return GroupRequest(
            key=f"{self.name}/{self.set_name}/{unit.task.id}/{unit.first}",
            run=self.name,
            priority=Priority.EVALUATION,
            task=asked(unit.task, protocol),
            sampling=SamplingParams(
                n=unit.num,
                max_tokens=unit.max_tokens,
                temperature=protocol.temperature,
                top_p=protocol.top_p,
                stop=protocol.stop,
                seed=self._seed(unit),
            ),
        )

    def _seed(self, unit: PlayUnit) -> int:
        found = (
            self.protocol.seed * _SEED_OF_SET
            + unit.place * _SEED_OF_TASK
            + unit.first * _SEED_OF_UNIT
        )
        return found % _SEEDS


def records_of(
    unit: PlayUnit, scored: ScoredGroup, reports: Sequence[ComponentReport]
) -> list[SampleRecord]:
    """Return the records of a played unit."""
    if scored.failure is not None:
        return [lost_sample(unit.task.id, index, scored.failure) for index in unit.indices]
    costs = _costs(reports, unit.num)
    pairs = zip(scored.group.rollouts, scored.rewards, strict=True)
    found = [
        _record(unit, index, scored, pair, costs)
        for index, pair in zip(unit.indices, pairs, strict=False)
    ]
    missing = Failure(
        failure_class=FailureClass.INTERNAL,
        service="inference",
        message=f"{len(found)} answers came where {unit.num} were asked for",
        retryable=True,
    )
    return found + [
        lost_sample(unit.task.id, index, missing) for index in unit.indices[len(found) :]
    ]


def lost_sample(task_id: str, index: int, failure: Failure | None) -> SampleRecord:
    """Return the record of a sample without a score."""
    return SampleRecord(
        task_id=task_id,
        index=index,
        text="",
        num_tokens=None,
        truncated=False,
        outcome=None,
        failure=failure,
    )


def _record(
    unit: PlayUnit,
    index: int,
    scored: ScoredGroup,
    pair: tuple[Rollout, Reward],
    costs: Mapping[str, float],
) -> SampleRecord:
    rollout, reward = pair
    record = SampleRecord(
        task_id=unit.task.id,
        index=index,
        text=rollout.text,
        turns=tuple((turn.text, turn.observation) for turn in rollout.turns),
        num_tokens=rollout.num_sampled,
        truncated=rollout.finish_reason is FinishReason.LENGTH,
        outcome=None,
        generate_s=scored.generate_time_s,
        score_s=scored.score_time_s,
    )
    if not isinstance(reward, Scored):
        if not rollout.text and not rollout.token_ids:
            return lost_sample(unit.task.id, index, reward.failure)  # it has no answer
        return record.model_copy(update={"failure": reward.failure, "measures": reward.measures})
    details = {one.name: one.detail for one in reward.components if one.detail}
    return record.model_copy(
        update={
            "outcome": reward.outcome,
            "reward": reward.value,
            "components": {one.name: one.value for one in reward.components},
            "details": details,
            "measures": reward.measures,
            "pass_ratio": pass_ratio(details.values()),
            **costs,
        }
    )


def _with_rounds(
    record: SampleRecord,
    unit: PlayUnit,
    scored: ScoredGroup,
    steps: Mapping[tuple[str, ...], StepResponse],
) -> SampleRecord:
    """Return a record with the verdict on each of its programs, the last one by the reward."""
    if record.outcome is None:
        return record
    turns = scored.group.rollouts[record.index - unit.first].turns
    texts = tuple(turn.text for turn in turns)
    replies = [steps[texts[: place + 1]] for place in range(len(turns) - 1)]
    if not turns:  # a task without tests has one round
        only = RoundRecord(
            outcome=record.outcome,
            pass_ratio=record.pass_ratio,
            num_tokens=record.num_tokens or 0,
        )
        return record.model_copy(update={"rounds": (only,)})
    verdicts = [(Status(str(one.facts["status"])), one.parts["pass_ratio"]) for one in replies]
    ratio = record.pass_ratio
    if ratio is None and texts in steps:
        ratio = steps[texts].parts["pass_ratio"]
    rounds = tuple(
        RoundRecord(outcome=outcome, pass_ratio=passed, num_tokens=turn.end - turn.start)
        for turn, (outcome, passed) in zip(turns, [*verdicts, (record.outcome, ratio)], strict=True)
    )
    return record.model_copy(update={"rounds": rounds})


def pass_ratio(details: Iterable[str]) -> float | None:
    """Return the share of tests passed that a component tells; None of an answer without tests."""
    for detail in details:
        found = _TESTS.match(detail)
        if found and int(found[2]):
            return int(found[1]) / int(found[2])
    return None


def _costs(reports: Sequence[ComponentReport], num: int) -> dict[str, float]:
    """Return a sample's share of a group's costs."""
    return {
        "sandbox_cpu_s": sum(one.cost.sandbox_cpu_s for one in reports) / num,
        "judge_s": sum(one.time_s for one in reports if one.cost.judge_tokens) / num,
        "judge_tokens": sum(one.cost.judge_tokens for one in reports) / num,
        "money": sum(one.cost.money for one in reports) / num,
    }
