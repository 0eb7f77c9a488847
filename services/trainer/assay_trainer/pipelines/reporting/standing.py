"""The standing of a pipeline's stages: what is done, runs, failed or waits, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from assay_shared.errors import DatasetError
from assay_trainer.browser.facts.pipeline_facts import STAGE_MARK, StageFacts
from assay_trainer.pipelines.child import last_line
from assay_trainer.pipelines.diagnosis.failures import why_it_failed
from assay_trainer.pipelines.diagnosis.results import what_results_say
from assay_trainer.pipelines.gating.overruling import Overruled, still_stopping
from assay_trainer.pipelines.gating.stopping import gate_hint, gate_told, stopping_gates
from assay_trainer.pipelines.runner import Pipeline, PlannedStage
from assay_trainer.pipelines.stage_folder import CommandAttempt, GateResult, StageRecord
from assay_trainer.pipelines.stage_kinds import TrainStage

_MOST_LINE = 300
_VERDICTS = ("FAIL", "INCONCLUSIVE", "PASS")
#: Of a state that lets later stages wait.
_BLOCKS = ("failed", "stopped", "unreadable")


def standing(pipeline: Pipeline, *, is_running: bool) -> list[StageFacts]:
    """Return the stages in order; `is_running` tells whether a process runs the pipeline."""
    last = pipeline.latest_events()
    overruled = _overruled(pipeline)
    found: list[StageFacts] = []
    blocked = ""
    for one in pipeline.stages.values():
        facts = _stage(pipeline, one, last, is_running)
        stopping = [] if one.record is None else stopping_gates(one.record.gates)
        if stopping:
            facts = _at_gate(facts, one, stopping, overruled)
            stops = not facts.is_overruled
            blocked = blocked or (f"a gate of {one.name} stops the pipeline" if stops else "")
        elif facts.state in ("to do", "waits"):
            facts = _waiting(pipeline, one, facts, blocked)
        elif facts.state in _BLOCKS:
            blocked = blocked or f"{one.name} comes before it, and it is {facts.state}"
        found.append(facts)
    return found


def _overruled(pipeline: Pipeline) -> list[Overruled]:
    try:
        return pipeline.overruled_now()
    except DatasetError as error:
        pipeline.problems["overruled.jsonl"] = str(error)
        return []


def _stage(
    pipeline: Pipeline, one: PlannedStage, last: dict[str, tuple[str, str]], is_running: bool
) -> StageFacts:
    facts = StageFacts(
        name=one.name,
        kind=one.stage.kind,
        state="to do",
        needs=tuple(pipeline.config.needs(one.name)),
        run=_run_of(pipeline, one),
    )
    if one.name in pipeline.problems:
        return replace(facts, state="unreadable", why=pipeline.problems[one.name])
    try:
        attempts = one.folder.attempts()
    except DatasetError as error:
        pipeline.problems[one.name] = str(error)
        return replace(facts, state="unreadable", why=str(error))
    facts = replace(facts, num_attempts=len(attempts))
    if one.record is not None:
        return _done(facts, one.record)
    if attempts:
        kind = last.get(one.name, ("", ""))[0]
        facts = replace(facts, seconds=sum((a.ended or a.started) - a.started for a in attempts))
        return _begun(facts, one, attempts[-1], kind, is_running)
    kind, reason = last.get(one.name, ("", ""))
    return replace(facts, state="skipped", why=reason) if kind == "stage_skipped" else facts


def _run_of(pipeline: Pipeline, one: PlannedStage) -> str:
    """Return the name of the run that a stage trained; empty without one."""
    is_run = isinstance(one.stage, TrainStage) and (one.folder.output / "config.json").is_file()
    return f"{pipeline.folder.name}{STAGE_MARK}{one.name}" if is_run else ""


def _done(facts: StageFacts, record: StageRecord) -> StageFacts:
    verdicts = [gate.verdict for gate in record.gates]
    costs = record.costs
    return replace(
        facts,
        state=record.state,
        verdict=next((word for word in _VERDICTS if word in verdicts), ""),
        why=record.reason,
        seconds=costs.seconds,
        gpu_hours=costs.gpu_hours,
        tokens=costs.tokens,
        judge_tokens=costs.judge_tokens,
        money=costs.money,
    )


def _begun(
    facts: StageFacts, one: PlannedStage, attempt: CommandAttempt, kind: str, is_running: bool
) -> StageFacts:
    """Return a stage whose command was started and that is not done."""
    line, code = last_line(one.folder.log)[:_MOST_LINE], attempt.exit_code
    if is_running and kind != "stage_failed":
        return replace(facts, state="running", why=line or "its log is empty so far")
    again = "the same `assay pipeline run` resumes it"
    if code is None:
        why = f"its process was killed: {line}"
        return replace(facts, state="stopped", why=why, advice=(again,))
    if kind == "stage_failed":
        advice = (*why_it_failed(one.folder, code), f"its output is in {one.folder.log}", again)
        return replace(facts, state="failed", why=f"exit code {code}: {line}", advice=advice)
    if code != 0:
        why = f"a stop was requested, or it used up the budget: exit code {code}: {line}"
        return replace(facts, state="stopped", why=why, advice=(again,))
    why = "its command ended well, and its result was not recorded"
    return replace(facts, state="stopped", why=why, advice=(again,))


def _at_gate(
    facts: StageFacts,
    one: PlannedStage,
    stopping: Sequence[GateResult],
    overruled: Sequence[Overruled],
) -> StageFacts:
    """Return a stage with gates that stop the pipeline, or were overruled with reasons."""
    left = still_stopping(stopping, one.folder, overruled)
    told = "; ".join(gate_told(one.name, gate) for gate in left or stopping)
    if not left:
        reasons = dict.fromkeys(line.reason for line in overruled if line.stage == one.name)
        advice = tuple(f"overruled: {reason}" for reason in reasons)
        return replace(facts, why=told, advice=advice, is_overruled=True)
    return replace(facts, why=told, advice=(gate_hint(left[0], _said(one)),))


def _said(one: PlannedStage) -> list[str]:
    try:
        return what_results_say(one.stage, one.folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []  # damaged results are named with the tables


def _waiting(pipeline: Pipeline, one: PlannedStage, facts: StageFacts, blocked: str) -> StageFacts:
    """Return a stage that has not begun, with what it waits for."""
    missing = list(_missing(pipeline, facts))
    if blocked:
        return replace(facts, state="waits", why=blocked)
    if missing:
        return replace(facts, state="waits", why=f"it needs {', '.join(missing)}")
    try:
        too_dear = pipeline.too_dear(one)
    except DatasetError:
        return facts  # the damage is named with its stage
    if too_dear:
        advice = "raise budget.money, or set skip_when_short for the stage"
        return replace(facts, state="waits", why=too_dear, advice=(advice,))
    return facts


def _missing(pipeline: Pipeline, facts: StageFacts) -> Iterator[str]:
    """Yield the needed stages that are not done."""
    return (name for name in facts.needs if pipeline.stages[name].record is None)
