"""Waits by a run's own files."""

from collections.abc import Iterator, Sequence
from statistics import median

from assay_shared.runs.run_folder import RunStatus
from assay_trainer.browser.facts.run_events import RunEvents
from assay_trainer.browser.facts.waiting import StepParts
from assay_trainer.browser.waits.wait import RunWait, duration_words

_RECENT = 20
#: From this share of the trainer's time on, a part is worth a change.
_MUCH = 0.5
#: A step stalls if it takes three times as long as usual, and a minute at least.
STALL_FACTOR, STALL_S = 3.0, 60.0
_REMEDIES = {
    "rollouts": "see the next sentence for the part that is slow",
    "updates": "train on more GPUs (--gpus), or a smaller grpo.groups_per_step",
    "publication": "set ASSAY_WEIGHT_TRANSFER=direct, or train an adapter with policy.lora",
    "checkpoints": "raise grpo.checkpoint_every, or give ASSAY_RUNS a faster disk",
}


def of_status(status: RunStatus, seen: RunEvents, folder: str) -> Iterator[RunWait]:
    """Yield the wait by the state of the run."""
    at = f"{status.stage} {status.step}/{status.num_steps}" if status.stage else "its start"
    match status.state:
        case "finished":
            yield RunWait("nobody", "nothing", "Nobody waits: the run is finished")
        case "failed" | "stopped":
            message = " ".join(status.message.split())[:500] or "no reason is stored"
            yield RunWait(
                "the run",
                "you",
                f"The run {status.state} in {at} and waits for a resume: {message.rstrip('.')}",
                f"fix the cause, then `assay train --resume {folder}`",
                seen.last_at,
            )
        case "created" | "queued":
            yield RunWait(
                "the run",
                "the trainer",
                "The run waits until the trainer begins it: it trains ASSAY_TRAINER_MAX_RUNNING "
                "runs at once",
                "`assay trainer list` shows the runs that it trains; stop one, or wait",
                status.updated or None,
            )
        case "running":
            yield _running(status, seen, at)
        case _:
            yield RunWait("the run", "you", f"The state is {status.state}: {status.message}")


def _running(status: RunStatus, seen: RunEvents, at: str) -> RunWait:
    since = seen.last_step_at or (seen.open_stage[1] if seen.open_stage else seen.last_at)
    usual = usual_step_s(seen) if status.stage == "grpo" else None
    if usual is None:
        return RunWait("you", "the trainer", f"The trainer works at {at}", since=since)
    return RunWait(
        "the trainer",
        "groups",
        f"The trainer is in the step after {at}, and a step usually takes {duration_words(usual)}",
        since=since,
    )


def usual_step_s(seen: RunEvents) -> float | None:
    """Return the median seconds of the last steps of GRPO; None without steps."""
    last = sorted(seen.steps)[-_RECENT:]
    return median(seen.steps[number].step_s for number in last) if last else None


def stalls(seen: RunEvents, now: float) -> bool:
    """Return True if the present step takes much longer than the steps before."""
    since = seen.last_step_at or (seen.open_stage[1] if seen.open_stage else None)
    usual = usual_step_s(seen)
    return since is not None and now - since > max(STALL_S, STALL_FACTOR * (usual or 0.0))


def of_times(parts: Sequence[StepParts]) -> Iterator[RunWait]:
    """Yield where the time of the last steps went: the trainer's, then a group's."""
    recent = parts[-_RECENT:]
    total = sum(one.total_s for one in recent)
    if total <= 0:
        return
    spent = {
        "rollouts": sum(one.rollouts_s for one in recent) / total,
        "updates": sum(one.update_s for one in recent) / total,
        "publication": sum(one.publish_s for one in recent) / total,
        "checkpoints": sum(one.checkpoint_s for one in recent) / total,
    }
    told = ", ".join(f"{name} {share:.0%}" for name, share in spent.items())
    most = max(spent, key=lambda name: spent[name])
    fix = _REMEDIES[most] if spent[most] >= _MUCH else ""
    yield RunWait(
        "the trainer",
        most,
        f"Of the last {len(recent)} steps' time, the trainer spends most on {most}: {told}",
        fix,
    )
    yield from _of_groups(recent, spent["rollouts"] >= _MUCH)


def _of_groups(recent: Sequence[StepParts], matters: bool) -> Iterator[RunWait]:
    known = [one for one in recent if one.generate_s is not None and one.score_s is not None]
    number = sum(one.num_groups for one in known)
    if not number:
        return
    generate = sum(one.num_groups * (one.generate_s or 0.0) for one in known) / number
    score = sum(one.num_groups * (one.score_s or 0.0) for one in known) / number
    longer = "inference" if generate >= score else "reward"
    fix = (
        "more inference replicas, a smaller grpo.max_tokens or a greater grpo.max_staleness"
        if longer == "inference"
        else "more ASSAY_SANDBOX_SLOTS or sandbox replicas, or higher limits in the judge's file"
    )
    yield RunWait(
        "the workers",
        longer,
        f"A worker waits for a group {generate:.2f} s in inference and {score:.2f} s in reward: "
        f"{longer} is the longer part",
        fix if matters else "",
    )
