"""The report of a study as Markdown and JSON."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from assay_reward.or_debug.evaluate.intervals import CellEstimate, TargetVerdict, estimate_series
from assay_reward.or_debug.evaluate.report import shown
from assay_reward.or_debug.evaluate.summary import OVERALL, TARGETS, EvaluationSummary
from assay_reward.or_debug.study.goals import GoalFinding, decide, difference
from assay_reward.or_debug.study.loading import StudyResults, trivial_names
from assay_reward.or_debug.study.study_figures import HEADLINES, best_trivial, draw_study
from assay_shared.runs.run_folder import write_atomically, write_json
from assay_shared.settings.run_file import provenance
from assay_shared.text.markdown import cell

_COMPARED = ("rr@5", "faithful", "diagnosis_iis_recall")


def write_study(study: StudyResults, folder: Path) -> list[GoalFinding]:
    """Write `study.md`, `study.json` and the figures into a folder; return the goals' findings.

    Raises:
        ConfigError: a goal cannot be decided from what the study has.
    """
    goals = decide(study)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = draw_study(study, folder)
    text = "\n".join(_lines(study, goals, pictures)) + "\n"
    content = {
        "name": study.file.name,
        "file": study.file.model_dump(mode="json"),
        "goals": [one.model_dump(mode="json") for one in goals],
        "policies": {one.name: one.summary.model_dump(mode="json") for one in study.results},
        "baselines": study.baselines.model_dump(mode="json"),
    }
    write_json(folder / "study.json", json.loads(json.dumps(content | provenance())))
    write_atomically(folder / "study.md", text)
    return goals


def _lines(
    study: StudyResults, goals: Sequence[GoalFinding], pictures: Sequence[str]
) -> Iterable[str]:
    yield f"# {cell(study.file.name)}"
    yield ""
    yield "Means over tasks with 95 % intervals. Failed episodes are in no mean; they are counted"
    yield "separately."
    yield ""
    if goals:
        yield from _goals(goals)
    yield from _headlines(study)
    yield from _differences(study)
    yield from _training(study)
    for metric in ("rr@5", "faithful"):
        yield from _cells(study, metric)
    yield "## Figures"
    yield ""
    yield from (f"![{name.partition('.')[0]}]({name})" for name in pictures)


def _goals(goals: Sequence[GoalFinding]) -> Iterable[str]:
    yield "## Goals"
    yield ""
    yield from _header("goal", "policy", "found", "n", "verdict")
    for one in goals:
        found = shown(one.found, True) if one.found else "no value"
        n = str(one.found.n) if one.found else ""
        yield f"| {cell(one.goal)} | {cell(one.policy)} | {found} | {n} | {one.verdict} |"
    yield ""
    yield "PASS: the interval lies within the bounds. FAIL: it lies outside. Else INCONCLUSIVE, as"
    yield "where it touches a bound. Intervals of shares hold with any result of failed episodes."
    yield ""


def _headlines(study: StudyResults) -> Iterable[str]:
    yield "## Policies and trivial policies, all cells"
    yield ""
    yield from _header("policy", "kind", "episodes", "failed", *HEADLINES, "steps")
    for one in study.results:
        yield f"| {cell(one.name)} | {one.policy.kind} | {_overall(one.summary, one.name)} |"
    for name in trivial_names(study.baselines):
        yield f"| {name} | trivial | {_overall(study.baselines, name)} |"
    if study.baselines.of("probe", OVERALL) is not None:
        yield f"| probe | informed | {_overall(study.baselines, 'probe')} |"
    yield ""


def _overall(summary: EvaluationSummary, name: str) -> str:
    found = summary.of(name, OVERALL)
    assert found is not None
    values = [found.metrics.get(metric) for metric in HEADLINES]
    told = [shown(one, True) if one else "" for one in values]
    steps = found.metrics.get("steps")
    counts = [str(found.num_episodes), str(found.num_failed)]
    return " | ".join([*counts, *told, shown(steps, False) if steps else ""])


def _differences(study: StudyResults) -> Iterable[str]:
    yield "## Differences to the start, over the same tasks"
    yield ""
    there = {one.difficulty for one in study.start.records}
    levels = [None, *(one for one in TARGETS if one in there)]
    yield from _header("policy", "tasks", *_COMPARED)
    for result in study.results:
        if result is study.start:
            continue
        for level in levels:
            found = [
                difference(study.start.records, result.records, metric, level)
                for metric in _COMPARED
            ]
            told = " | ".join(_signed(one) if one else "" for one in found)
            yield f"| {cell(result.name)} | {level or 'all'} | {told} |"
    yield ""


def _signed(found: CellEstimate) -> str:
    return f"{found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


def _training(study: StudyResults) -> Iterable[str]:
    trained = [one for one in study.results if one.training is not None]
    if not trained:
        return
    yield "## Training"
    yield ""
    yield from _header(
        "policy",
        "steps",
        "reward variance within groups",
        "groups without signal",
        "largest fall of the reward",
        "gradient norm, 95th percentile over median",
    )
    for one in trained:
        facts = one.training
        assert facts is not None
        known = facts.reward_variances
        variance = shown(estimate_series(known), True) if known else ""
        share = f"{facts.num_without_signal} of {facts.num_played}"
        fall, spread = _number(facts.largest_fall), _number(facts.gradient_spread)
        yield f"| {cell(one.name)} | {facts.num_steps} | {variance} | {share} | {fall} | {spread} |"
    yield ""
    yield "The reward's variance is in the units of its rubric. Intervals are over steps, and"
    yield "wider where neighbouring steps resemble each other. The reward is averaged over 5 steps"
    yield "before a fall is measured."
    yield ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _cells(study: StudyResults, metric: str) -> Iterable[str]:
    yield f"## {metric} by cell"
    yield ""
    yield from _header("cell", *(cell(one.name) for one in study.results), "best trivial policy")
    for place in study.start.summary.cell_names:
        told = []
        for one in study.results:
            summary = one.summary.of(one.name, place)
            found = summary.metrics.get(metric) if summary else None
            told.append(shown(found, True) if found else "")
        best = best_trivial(study, metric, place)
        trivial = "" if best is None else f"{best[1]:.2f} {best[0]}"
        yield f"| {place} | {' | '.join(told)} | {trivial} |"
    yield ""


def _header(*names: str) -> Iterable[str]:
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"


def summary_of(goals: Sequence[GoalFinding]) -> str:
    """Return how many goals have each verdict."""
    return ", ".join(f"{[g.verdict for g in goals].count(one)} {one}" for one in TargetVerdict)
