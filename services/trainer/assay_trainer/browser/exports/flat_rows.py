"""A sample as a flat row of a table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from assay_trainer.browser.samples.detail import SampleDetail

Kind = Literal["text", "integer", "number"]
Value = str | int | float | None


@dataclass(frozen=True)
class SampleColumn:
    """A column of a table of samples; `kind` is the type of its values, each of which may lack."""

    name: str
    kind: Kind = "text"


_COLUMNS = (
    SampleColumn("run"),
    SampleColumn("step", "integer"),
    SampleColumn("key"),
    SampleColumn("place", "integer"),
    SampleColumn("task"),
    SampleColumn("dataset"),
    SampleColumn("tags"),
    SampleColumn("kept"),
    SampleColumn("reason"),
    SampleColumn("outcome"),
    SampleColumn("reward", "number"),
    SampleColumn("advantage", "number"),
    SampleColumn("failure_class"),
    SampleColumn("failure_service"),
    SampleColumn("failure_message"),
    SampleColumn("failure_attempts", "integer"),
    SampleColumn("policy_versions"),
    SampleColumn("num_tokens", "integer"),
    SampleColumn("finish_reason"),
    SampleColumn("scorer"),
    SampleColumn("worker"),
    SampleColumn("group_generate_s", "number"),
    SampleColumn("group_score_s", "number"),
    SampleColumn("prompt"),
    SampleColumn("answer"),
    SampleColumn("components"),
    SampleColumn("evidence"),
    SampleColumn("measures"),
    SampleColumn("group_costs"),
)
_PREFIX = "component."


def columns(part_names: Sequence[str]) -> list[SampleColumn]:
    """Return all columns; the last ones have the value of a reward component each."""
    return [*_COLUMNS, *(SampleColumn(_PREFIX + name, "number") for name in part_names)]


def flat_row(run: str, one: SampleDetail, part_names: Sequence[str]) -> list[Value]:
    """Return the values of `columns(part_names)`; None for what a sample lacks.

    A sample without a score has no reward: it is None, never 0. Lists and objects are JSON.
    """
    failure, rollout, scored = one.failure, one.rollout, one.scored
    answer = None if rollout is None else rollout.answer
    values = {part.name: part.value for part in scored.components} if scored else {}
    return [
        run,
        one.group.step,
        one.group.group.key,
        one.place,
        one.task.id,
        one.task.dataset,
        _json(one.task.tags),
        one.kept,
        one.reason or None,
        one.outcome,
        scored.value if scored else None,
        one.advantage,
        failure.failure_class.value if failure else None,
        failure.service if failure else None,
        failure.message if failure else None,
        failure.attempts if failure else None,
        ", ".join(str(version) for version, _ in one.versions),
        rollout.num_sampled if rollout else None,
        rollout.finish_reason.value if rollout else None,
        one.group.scorer,
        one.group.worker,
        one.group.generate_time_s,
        one.group.score_time_s,
        _json([message.model_dump() for message in one.task.messages]),
        answer if answer is None or isinstance(answer, str) else _json(answer),
        _json([part.model_dump() for part in scored.components]) if scored else None,
        _json(one.reward.evidence) if one.reward else None,
        _json(one.reward.measures) if one.reward else None,
        _json([cost.model_dump() for cost in one.group.costs]),
        *(values.get(name) for name in part_names),
    ]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
