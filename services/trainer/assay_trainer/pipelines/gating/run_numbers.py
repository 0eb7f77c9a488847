"""The numbers of a run of `assay train` that gates can bound, from its files."""

import json
from pathlib import Path
from typing import Any

from assay_shared.runs.run_folder import RunFolder
from assay_trainer import events

_REPORT = "report.json"


def run_numbers(output: Path, moved: dict[str, float]) -> dict[str, Any]:
    """Return the numbers of a run: losses, margins, rewards, evaluations, weights that moved.

    A number of the first measurement is in `before`, of the last one in `after`.
    """
    found: dict[str, Any] = {"weights": {"moved_share": moved}} if moved else {}
    file = output / _REPORT
    report: dict[str, Any] = json.loads(file.read_bytes()) if file.exists() else {}
    if sft := report.get("sft"):
        found["sft"] = _of_sft(sft)
    if dpo := report.get("dpo"):
        found["dpo"] = _losses(dpo) | _of_pairs(dpo.get("held_out") or {})
    if grpo := report.get("training"):
        found["grpo"] = _of_grpo(grpo, output)
    for name, one in (report.get("evaluations") or {}).items():
        evaluations = found.setdefault("evaluations", {})
        evaluations[name] = {"num_tasks": one["num_tasks"], "pass_at": one["pass_at"]}
    if gain := (report.get("differences") or {}).get("pass_at_1"):
        found["gain"] = gain | {"num_tasks": _num_tasks(report)}
    return found


def _losses(stage: dict[str, Any]) -> dict[str, Any]:
    loss = {"first": stage["first_loss"], "last": stage["last_loss"]}
    return {
        "num_steps": stage["num_steps"],
        "loss": loss | {"change": loss["last"] - loss["first"]},
        "max_grad_norm": stage["max_grad_norm"],
    }


def _of_sft(sft: dict[str, Any]) -> dict[str, Any]:
    """Add the held-out loss: at the first measurement, the least, and the last."""
    found = _losses(sft)
    losses = [float(one) for one in (sft.get("validation_losses") or {}).values()]
    if losses:
        found["validation_loss"] = {
            "first": losses[0],
            "least": min(losses),
            "last": losses[-1],
            "change": losses[-1] - losses[0],
            # Above 0, the last update is worse than an earlier one: the stage overfits.
            "over_least": losses[-1] - min(losses),
        }
    return found


def _of_pairs(held_out: dict[str, Any]) -> dict[str, Any]:
    """Return margin and win rates of the held-out pairs, before and after."""
    found: dict[str, Any] = {}
    for name, one in held_out.items():
        numbers = {key: one[key] for key in ("win_rate", "logprob_win_rate")}
        numbers["margin"] = one.get("margin_interval") or one["margin"]
        found[name] = numbers | {"num_tasks": one["num_pairs"]}
    return found


def _of_grpo(training: dict[str, Any], output: Path) -> dict[str, Any]:
    living = events.living(RunFolder(output).read_events())
    seen = [one for event in living if isinstance(one := events.content(event), events.StepEvent)]
    rewards = [one.reward for one in seen if one.reward is not None]
    variances = [one.reward_variance for one in seen if one.reward_variance is not None]
    found: dict[str, Any] = {
        "num_steps": training["num_steps"],
        "num_groups_played": training["num_groups_played"],
        "num_groups_trained_on": training["num_groups_trained_on"],
        "num_failures": sum((training.get("failures") or {}).values()),
    }
    if rewards:
        found["reward"] = {"first": rewards[0], "last": rewards[-1]}
    if variances:
        found["reward_variance"] = sum(variances) / len(variances)
    if played := training["num_groups_played"]:
        found["share_without_signal"] = training["num_groups_without_signal"] / played
    return found


def _num_tasks(report: dict[str, Any]) -> int:
    return min(int(one["num_tasks"]) for one in report["evaluations"].values())
