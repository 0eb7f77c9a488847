"""Retention of a run's files: newest checkpoints, the best checkpoint, and rollouts."""

import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from assay_shared.errors import Conflict, InvalidInput, WeightsRefused
from assay_shared.runs import run_lock
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.evaluation.best_checkpoint import read_best
from assay_trainer.learner import checkpoint
from assay_trainer.rollouts.rollout_log import DISCARDED, DISCARDED_OLDER, OLDER


def forget_checkpoints(checkpoints: Path, keep: int, *, keep_best: bool) -> list[Path]:
    """Delete all complete checkpoints except the newest `keep` and, if requested, the best.

    The checkpoint of the run's best_checkpoint.json stays too.

    Incomplete checkpoints are deleted too, except the newest: it may be in progress.

    Returns:
        The deleted folders.
    """
    doomed = to_forget(checkpoints, keep, keep_best=keep_best)
    for folder in doomed:
        shutil.rmtree(folder)
    return doomed


def to_forget(checkpoints: Path, keep: int, *, keep_best: bool) -> list[Path]:
    """Return the folders `forget_checkpoints` would delete."""
    return _all_but(checkpoints, checkpoint.whole(checkpoints), keep, keep_best=keep_best)


def _all_but(checkpoints: Path, whole: list[Path], keep: int, *, keep_best: bool) -> list[Path]:
    kept = set(whole[-keep:] if keep else [])
    if keep_best:
        kept |= {checkpoint.best(checkpoints)} - {None}  # type: ignore[arg-type]
    measured = read_best(checkpoints.parent.parent)
    if measured is not None:
        kept.add(checkpoints.parent.parent / measured.folder)
    others = sorted(checkpoints.glob("checkpoint-*"), key=checkpoint.step_of)
    if others and others[-1] not in checkpoint.whole(checkpoints):
        kept.add(others[-1])
    return [folder for folder in others if folder not in kept]


@dataclass(frozen=True)
class Pruned:
    """The deleted or deletable files of a run."""

    name: str
    doomed: tuple[Path, ...]
    num_bytes: int
    #: Why nothing of it is touched.
    spared_because: str = ""


def prune(runs: Path, *, keep: int, rollouts: bool, dry_run: bool) -> list[Pruned]:
    """Delete unneeded files of runs.

    A resumable run keeps its newest `keep` undamaged checkpoints and the best. A finished run keeps
    the best checkpoint and its newest weights. A run held by a process is not touched.

    Args:
        rollouts: delete the rollouts of finished runs too; they cannot be scored again afterwards.

    Raises:
        InvalidInput: `keep` leaves nothing to resume from.
    """
    if keep < 1:
        raise InvalidInput("at least 1: a resume needs the newest checkpoint", field="keep")
    return [
        _prune_run(RunFolder(path.parent), keep, rollouts, dry_run)
        for path in sorted(runs.glob("*/config.json"))
    ]


def _prune_run(run: RunFolder, keep: int, rollouts: bool, dry_run: bool) -> Pruned:
    """Find unneeded files and delete them unless `dry_run`, while no process can start to train."""
    with ExitStack() as stack:
        if dry_run:
            owner = run_lock.owner_of(run.path)
            if owner is not None:
                return Pruned(run.path.name, (), 0, f"it belongs to {owner}")
        else:
            try:
                stack.enter_context(run_lock.held(run.path))
            except Conflict as error:
                return Pruned(run.path.name, (), 0, error.message)
        found = _find(run, keep, rollouts)
        if not dry_run:
            for path in found.doomed:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return found


def _find(run: RunFolder, keep: int, rollouts: bool) -> Pruned:
    status = run.read_status_or_damage()
    if status.state == "unreadable":
        return Pruned(run.path.name, (), 0, status.message)
    is_finished = status.state == "finished"
    doomed = []
    for stage in sorted(run.checkpoints.glob("*")):
        good = [] if is_finished else _good(stage, keep)
        doomed += _all_but(stage, good, keep, keep_best=True) + checkpoint.refused(stage)
        if not is_finished and not good and checkpoint.whole(stage):
            return Pruned(run.path.name, (), 0, f"no checkpoint in {stage} is what was written")
    if is_finished:
        doomed += sorted(run.policies.glob("v*"))[:-1]
        others = (run.path / name for name in (OLDER, DISCARDED, DISCARDED_OLDER))
        doomed += [p for p in (run.rollouts, *others) if rollouts and p.exists()]
    return Pruned(run.path.name, tuple(doomed), sum(_size(path) for path in doomed))


def _good(stage: Path, number: int) -> list[Path]:
    """Return the newest `number` undamaged checkpoints, oldest first."""
    good: list[Path] = []
    for folder in reversed(checkpoint.whole(stage)):
        if len(good) == number:
            break
        try:
            checkpoint.check(folder)
        except WeightsRefused:
            continue
        good.insert(0, folder)
    return good


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
