"""Everything that the browser says of a run besides its samples."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay_shared.errors import AssayError
from assay_shared.runs.regular_file import read_regular, reason_of
from assay_shared.runs.run_folder import RunFolder, RunStatus
from assay_shared.settings.run_file import dotted_settings, parse_config
from assay_shared.statistics.interval import Interval
from assay_trainer.browser.diagnosis.diagnose import diagnose
from assay_trainer.browser.diagnosis.facts import RECENT_STEPS, DiagnosedFacts
from assay_trainer.browser.diagnosis.finding import RunFinding
from assay_trainer.browser.diagnosis.judged_groups import JudgedGroup
from assay_trainer.browser.facts.funnel import FunnelStage, funnel
from assay_trainer.browser.facts.run_events import RunEvents
from assay_trainer.browser.facts.waiting import StepParts, sentence, step_parts
from assay_trainer.browser.reading.run_index import IndexState, LineProblem, RunIndex
from assay_trainer.config import RunConfig

_MOST_CONFIG_BYTES = 4 * 2**20
#: Steps of the timeline.
_SHOWN_STEPS = 40


@dataclass(frozen=True)
class RunSummary:
    """A run for people: state, results, funnel, times, and what is stored of its samples."""

    name: str
    status: RunStatus
    gain: Interval | None
    evaluations: list[tuple[str, Interval]]
    funnel: list[FunnelStage]
    parts: list[StepParts]
    waiting: str
    stored: IndexState
    outcomes: dict[str, int]
    discarded: dict[str, int]
    problems: list[LineProblem]
    #: What the rules of `diagnosis` find.
    findings: list[RunFinding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_config(folder: RunFolder) -> tuple[dict[str, Any], RunConfig | None]:
    """Return config.json as it is, and the configuration if this version can read it."""
    try:
        content = json.loads(read_regular(folder.config, _MOST_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}, None
    if not isinstance(content, dict):
        return {}, None
    try:
        return content, parse_config(RunConfig, content.get("config", {}), source="config.json")
    except AssayError:
        return content, None


def flat_config(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the settings of a configuration as (section.key, value)."""
    for name, value in dotted_settings(content):
        yield name, json.dumps(value)[:500]


def summarise(
    name: str,
    folder: RunFolder,
    status: RunStatus,
    seen: RunEvents,
    index: RunIndex,
    judged: Sequence[JudgedGroup] = (),
) -> RunSummary:
    """Return the summary of a run as far as events and index are read."""
    _, config = read_config(folder)
    group_size = config.grpo.group_size if config is not None and config.grpo else None
    steps = [seen.steps[number] for number in sorted(seen.steps)]
    times = index.times(RECENT_STEPS)
    parts = step_parts(steps[-_SHOWN_STEPS:], times)
    outcomes: dict[str, int] = {}
    discarded: dict[str, int] = {}
    for (reason, outcome, failure_class), number in index.counts().items():
        shown = f"{outcome}:{failure_class}" if failure_class else outcome
        outcomes[shown] = outcomes.get(shown, 0) + number
        if reason:
            discarded[reason] = discarded.get(reason, 0) + number
    return RunSummary(
        name=name,
        status=status,
        gain=seen.end.gain if seen.end else None,
        evaluations=list(_evaluations(seen)),
        funnel=funnel(steps, group_size),
        parts=parts,
        waiting=sentence(parts),
        stored=index.state(),
        outcomes=dict(sorted(outcomes.items(), key=lambda one: -one[1])),
        discarded=dict(sorted(discarded.items(), key=lambda one: -one[1])),
        problems=index.problems(),
        findings=diagnose(
            DiagnosedFacts(
                steps=steps,
                sft=[seen.sft[number] for number in sorted(seen.sft)],
                grpo=config.grpo if config is not None else None,
                gain=seen.end.gain if seen.end else None,
                group_times=times,
                judged=judged,
            )
        ),
        notes=[*_unreadable(folder, seen, index), *_notes(seen, folder.path)],
    )


def _evaluations(seen: RunEvents) -> Iterator[tuple[str, Interval]]:
    for one in seen.evaluated:
        if 1 in one.pass_at:
            yield f"{one.name}, pass@1", one.pass_at[1]
    for tier in seen.tiers:
        if tier.result is not None:
            at = tier.stage if tier.step is None else f"{tier.stage} {tier.step}"
            yield f"{tier.set}, {at}", tier.result


def _unreadable(folder: RunFolder, seen: RunEvents, index: RunIndex) -> Iterator[str]:
    """Yield the files that cannot be read, with the reasons."""
    reasons = {"events.jsonl": seen.unreadable} | index.unreadable
    try:
        json.loads(read_regular(folder.config, _MOST_CONFIG_BYTES))
    except OSError as error:
        reasons["config.json"] = reason_of(error)
    except (ValueError, RecursionError):
        reasons["config.json"] = "it is not JSON"
    for name, reason in reasons.items():
        if reason:
            yield f"{name} cannot be read: {reason}"
    yield from seen.damaged
    if seen.num_damaged > len(seen.damaged):
        yield f"events.jsonl has {seen.num_damaged} damaged lines; the first are above."


def _notes(seen: RunEvents, folder: Path) -> Iterator[str]:
    if seen.ended_early:
        yield seen.ended_early
    if seen.num_resumes:
        yield f"The run was resumed {seen.num_resumes} times; replaced steps are left out."
    if seen.num_dropped_steps:
        yield f"The first {seen.num_dropped_steps} steps are left out of curves and funnel."
    if seen.set_aside:
        yield f"{len(seen.set_aside)} tasks were set aside; the first: {seen.set_aside[0].reason}"
    if (folder / "rollouts.older.jsonl").exists():
        yield "rollouts.jsonl reached retention.rollouts_bytes: the oldest groups may be gone."
