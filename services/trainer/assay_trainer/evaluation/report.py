"""The report of a run: Markdown, HTML and JSON, with pictures."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from assay_shared.runs.run_folder import RunFolder, write_atomically, write_json
from assay_shared.text import markdown
from assay_shared.text.html_pages import picture_url, templates_in
from assay_trainer import events
from assay_trainer.config import RunConfig
from assay_trainer.evaluation import figures
from assay_trainer.evaluation.curriculum_report import curriculum_facts, draw_curriculum
from assay_trainer.evaluation.evaluator import (
    TaskEvaluation,
    TaskResult,
    difference,
    measured_differences,
)
from assay_trainer.meters import METERS, ActivityMeter, summary

_TEMPLATES = Path(__file__).parent / "templates"
_NUM_SHOWN = 3
_Step = TypeVar("_Step", events.StepEvent, events.SFTStep, events.DPOStep)


def write_report(
    folder: RunFolder, config: RunConfig, evaluations: Sequence[TaskEvaluation]
) -> dict[str, Any]:
    """Write report.json, report.md, report.html and figures/; return the content of report.json."""
    living = events.living(folder.read_events())
    seen = [content for event in living if (content := events.content(event))]
    steps = last_of_each([one for one in seen if isinstance(one, events.StepEvent)])
    stages_s = stage_times([one for one in seen if isinstance(one, events.StageFinished)])
    sft = last_of_each([one for one in seen if isinstance(one, events.SFTStep)])
    dpo = last_of_each([one for one in seen if isinstance(one, events.DPOStep)])
    pictures = _draw_given_rows(folder.path / "figures", sft, dpo)
    pictures |= _draw(folder.path / "figures", evaluations, steps, stages_s)
    curriculum = curriculum_facts(steps, seen)
    if curriculum is not None:
        draw_curriculum(steps, seen, folder.path / "figures" / "curriculum.png")
        pictures["Curriculum"] = "figures/curriculum.png"
    facts = {
        "name": folder.path.name,
        "seed": config.seed,
        "git_commit": folder.read_config().get("git_commit"),
        "evaluations": {e.name: _facts(e) for e in evaluations},
        **_differences(evaluations),
        "sft": _sft(sft),
        "dpo": _dpo(dpo, [one for one in seen if isinstance(one, events.DPOMeasured)]),
        "training": _training(steps),
        "curriculum": curriculum,
        "ended_early": next(
            (one.message for one in seen if isinstance(one, events.GRPOEndedEarly)), None
        ),
        "stages_s": stages_s,
        "set_aside": _set_aside(seen),
        "checkpoints_refused": [
            one.model_dump() for one in seen if isinstance(one, events.CheckpointRefused)
        ],
    }
    write_json(folder.path / "report.json", facts)
    _render(
        folder.path,
        {
            "facts": facts,
            "pictures": pictures,
            "inline": {
                name: picture_url((folder.path / path).read_bytes())
                for name, path in pictures.items()
            },
            "examples": _examples(evaluations),
            "confidence": config.evaluation.confidence,
        },
    )
    return facts


def _render(folder: Path, values: dict[str, Any]) -> None:
    """Write report.md and report.html."""
    environment = templates_in(_TEMPLATES)
    environment.filters |= {"fenced": markdown.fenced, "code": markdown.code}
    for name in ("report.md", "report.html"):
        text = environment.get_template(f"{name}.j2").render(values)
        write_atomically(folder / name, text)


def _set_aside(seen: Sequence[object]) -> dict[str, dict[str, str]]:
    """Return the tasks set aside with their reasons, by set."""
    found: dict[str, dict[str, str]] = {}
    for one in seen:
        if isinstance(one, events.TaskSetAside):
            found.setdefault(one.set, {})[one.task] = one.reason
    return found


def last_of_each(steps: Sequence[_Step]) -> list[_Step]:
    """Return each step once: repeated steps after a resume replace the earlier ones."""
    return sorted({step.step: step for step in steps}.values(), key=lambda step: step.step)


def stage_times(finished: Sequence[events.StageFinished]) -> dict[str, float]:
    """Return the seconds of each stage, all attempts together."""
    total: Counter[str] = Counter()
    for one in finished:
        total[one.stage] += one.took_s  # type: ignore[assignment]  # Counter adds floats as well
    return dict(total)


def _draw_given_rows(
    folder: Path, sft: Sequence[events.SFTStep], dpo: Sequence[events.DPOStep]
) -> dict[str, str]:
    """Draw the steps of SFT and DPO; return the pictures as `_draw` does."""
    drawn = {}
    if sft:
        panels = [("loss", "validation_loss"), ("learning_rate",), ("grad_norm",)]
        figures.draw_given_rows(sft, "SFT", panels, folder / "sft.png")
        drawn["SFT"] = f"{folder.name}/sft.png"
    if dpo:
        panels = [("loss",), ("margin",), ("accuracy",)]
        figures.draw_given_rows(dpo, "DPO", panels, folder / "dpo.png")
        drawn["DPO"] = f"{folder.name}/dpo.png"
    return drawn


def _draw(
    folder: Path,
    evaluations: Sequence[TaskEvaluation],
    steps: Sequence[events.StepEvent],
    stages_s: dict[str, float],
) -> dict[str, str]:
    """Draw the pictures with data; return their paths from the run's folder, by title."""
    drawn = {"Before and after": "comparison.png", "By family": "families.png"}
    figures.draw_comparison(evaluations, "domain", folder / "comparison.png")
    figures.draw_comparison(evaluations, "family", folder / "families.png")
    if steps:
        figures.draw_curves(steps, folder / "curves.png")
        drawn["Training curves"] = "curves.png"
        if figures.draw_meters(steps, folder / "meters.png"):
            drawn["Activity meters"] = "meters.png"
    if any(step.mismatch is not None for step in steps):
        figures.draw_mismatch(steps, folder / "mismatch.png")
        drawn["Inference and trainer"] = "mismatch.png"
    figures.draw_outcomes(evaluations, folder / "outcomes.png")
    figures.draw_time(stages_s, steps, folder / "time.png")
    drawn |= {"How answers ended": "outcomes.png", "Where the time went": "time.png"}
    return {title: f"{folder.name}/{name}" for title, name in drawn.items()}


def _facts(evaluation: TaskEvaluation) -> dict[str, Any]:
    samples = [sample for one in evaluation.results for sample in one.samples]
    ks = [k for k in (1, 2, 4, 8, 16, 32, 64) if evaluation.pass_at(k)]
    return {
        "policy": evaluation.policy.model_dump(),
        "num_tasks": len(evaluation.results),
        "num_samples": len(samples),
        "num_set_aside": len(evaluation.set_aside),
        "num_without_score": sum(sample.outcome is None for sample in samples),
        "pass_at": {str(k): asdict(evaluation.interval(k)) for k in ks},
        "by_domain": {k: asdict(v) for k, v in evaluation.by_tag("domain").items()},
        "by_family": {k: asdict(v) for k, v in evaluation.by_tag("family").items()},
        "outcomes": dict(evaluation.outcomes()),
    }


def _differences(evaluations: Sequence[TaskEvaluation]) -> dict[str, Any]:
    """Return the differences of the last evaluation to the first, over the same tasks.

    `measured` has the numbers that verifiers noted, before and after; none if they noted nothing.
    """
    if len(evaluations) < 2:
        return {"differences": {}, "measured": {}}
    first, last = evaluations[0], evaluations[-1]
    found = measured_differences(first, last)
    measured = {
        name: {key: asdict(one) for key, one in intervals.items()}
        for name, intervals in found.items()
        if found.keys() - {"reward"}
    }
    return {"differences": {"pass_at_1": asdict(difference(first, last))}, "measured": measured}


def _given_rows(steps: Sequence[events.GivenRowsStep]) -> dict[str, Any]:
    first, last = steps[0], steps[-1]
    return {
        "num_steps": last.step,
        "epochs": last.epoch,
        "first_loss": first.loss,
        "last_loss": last.loss,
        "max_grad_norm": max(step.grad_norm for step in steps),
        "memory_bytes": last.memory_bytes,
    }


def _sft(steps: Sequence[events.SFTStep]) -> dict[str, Any] | None:
    if not steps:
        return None
    losses = {str(s.step): s.validation_loss for s in steps if s.validation_loss is not None}
    return _given_rows(steps) | {"validation_losses": losses}


def _dpo(
    steps: Sequence[events.DPOStep], measured: Sequence[events.DPOMeasured]
) -> dict[str, Any] | None:
    if not steps:
        return None
    last = {"last_margin": steps[-1].margin, "last_accuracy": steps[-1].accuracy}
    return _given_rows(steps) | last | {"held_out": {m.name: m.model_dump() for m in measured}}


def _training(steps: Sequence[events.StepEvent]) -> dict[str, Any] | None:
    if not steps:
        return None
    failures: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    played: Counter[str] = Counter()
    trained: Counter[str] = Counter()
    for step in steps:
        failures.update(step.failures)
        refused.update(step.refused)
        played.update(step.played_by_domain)
        trained.update(step.trained_by_domain)
    return {
        "num_steps": len(steps),
        "num_groups_played": sum(step.num_played for step in steps),
        "num_groups_trained_on": sum(step.num_groups for step in steps),
        "num_groups_without_signal": sum(step.num_without_signal for step in steps),
        "meters": {
            meter.field: {"title": meter.title, "shown": _shown(meter, steps)}
            | asdict(summary(meter, steps))
            for meter in METERS
        },
        "groups_refused": dict(refused),
        "by_domain": {
            domain: {"played": number, "trained_on": trained[domain]}
            for domain, number in sorted(played.items())
        },
        "failures": dict(failures),
        "mismatch": _mismatch(steps),
        "time_s": {
            "rollouts": sum(step.rollouts_s for step in steps),
            "update": sum(step.update_s for step in steps),
            "publish": sum(step.publish_s for step in steps),
        },
    }


def _shown(meter: ActivityMeter, steps: Sequence[events.StepEvent]) -> dict[str, str]:
    """Return the summary's values as text."""
    found = summary(meter, steps)
    values = {"mean": found.mean, "least": found.least, "most": found.most, "last": found.last}
    return {name: meter.shown(value) for name, value in values.items()}


def _mismatch(steps: Sequence[events.StepEvent]) -> dict[str, float] | None:
    """Return means over all measured tokens; None without measured tokens."""
    measured = [step.mismatch for step in steps if step.mismatch is not None]
    num_tokens = sum(one.num_tokens for one in measured)
    if num_tokens == 0:
        return None
    means = ("mean_abs_nats", "kl_k1_nats", "kl_k3_nats")
    return {
        "num_steps": len(measured),
        "num_tokens": num_tokens,
        "max_abs_nats": max(one.max_abs_nats for one in measured),
    } | {
        name: sum(one.num_tokens * getattr(one, name) for one in measured) / num_tokens
        for name in means
    }


def _examples(evaluations: Sequence[TaskEvaluation]) -> list[dict[str, object]]:
    """Return tasks with a first sample turned from wrong to right, with both samples."""
    if len(evaluations) < 2:
        return []
    first = {one.task_id: one for one in evaluations[0].results}
    mended = [
        (first[one.task_id], one)
        for one in evaluations[-1].results
        if one.task_id in first and _right(one) and not _right(first[one.task_id])
    ]
    return [
        {"prompt": after.prompt, "before": before.samples[0].text, "after": after.samples[0].text}
        for before, after in mended[:_NUM_SHOWN]
    ]


def _right(result: TaskResult) -> bool:
    return result.samples[0].outcome == "accepted"
