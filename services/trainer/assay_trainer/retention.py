"""What of a run stays on the disk: its newest checkpoints, the best one, and so many rollouts."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from assay_shared.errors import InvalidInput
from assay_shared.run_folder import RunFolder, append_line
from assay_trainer import checkpoint

#: Rollouts that were set aside; what is older is gone.
OLDER = "rollouts.older.jsonl"


def append_rollout(path: Path, line: str, max_bytes: int) -> None:
    """Add a group to the rollouts. At half of `max_bytes` they are set aside, and the older go."""
    if path.exists() and path.stat().st_size + len(line) > max_bytes // 2:
        path.replace(path.with_name(OLDER))
    append_line(path, line)


def forget_checkpoints(checkpoints: Path, keep: int, *, keep_best: bool) -> list[Path]:
    """Delete all but the newest `keep` whole checkpoints and, if asked for, the best.

    Those that are not whole go too, but for the newest, which may be about to be.

    Returns:
        What was deleted.
    """
    doomed = to_forget(checkpoints, keep, keep_best=keep_best)
    for folder in doomed:
        shutil.rmtree(folder)
    return doomed


def to_forget(checkpoints: Path, keep: int, *, keep_best: bool) -> list[Path]:
    """What `forget_checkpoints` would delete."""
    whole = checkpoint.whole(checkpoints)
    kept = set(whole[len(whole) - keep :] if keep else [])
    if keep_best:
        kept |= {checkpoint.best(checkpoints)} - {None}  # type: ignore[arg-type]
    others = sorted(checkpoints.glob("checkpoint-*"), key=checkpoint.step_of)
    if others and others[-1] not in whole:
        kept.add(others[-1])
    return [folder for folder in others if folder not in kept]


@dataclass(frozen=True)
class Pruned:
    """What is or would be gone of one run."""

    name: str
    doomed: tuple[Path, ...]
    num_bytes: int
    #: Why nothing of it is touched.
    spared_because: str = ""


def prune(
    runs: Path, *, keep: int, rollouts: bool, idle_hours: float, dry_run: bool
) -> list[Pruned]:
    """Delete what runs no longer need: of one that can go on, checkpoints beyond the newest `keep`
    and the best; of a finished one, all checkpoints but the best, and all but its newest weights.

    Args:
        rollouts: delete the rollouts of finished runs too; they cannot be scored again then.
        idle_hours: a run in which something was written since is taken for running.

    Raises:
        InvalidInput: `keep` leaves nothing to resume from.
    """
    if keep < 1:
        raise InvalidInput("at least 1: a resume needs the newest checkpoint", field="keep")
    found = [
        _prune_run(RunFolder(path.parent), keep, rollouts, idle_hours)
        for path in sorted(runs.glob("*/config.json"))
    ]
    if not dry_run:
        for path in (path for pruned in found for path in pruned.doomed):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return found


def _prune_run(run: RunFolder, keep: int, rollouts: bool, idle_hours: float) -> Pruned:
    status = run.read_status()
    idle_s = time.time() - max(path.stat().st_mtime for path in run.path.iterdir())
    if status.state in ("created", "running") and idle_s < idle_hours * 3600:
        return Pruned(run.path.name, (), 0, "it is running, or was a while ago")
    is_finished = status.state == "finished"
    doomed = [
        folder
        for stage in sorted(run.checkpoints.glob("*"))
        for folder in to_forget(stage, 0 if is_finished else keep, keep_best=True)
    ]
    if is_finished:
        doomed += sorted(run.policies.glob("v*"))[:-1]
        doomed += [p for p in (run.rollouts, run.path / OLDER) if rollouts and p.exists()]
    return Pruned(run.path.name, tuple(doomed), sum(_size(path) for path in doomed))


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
