"""Keeping runs: back up, restore, prune."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from assay_shared.settings.environment import ServiceSettings

_RUNS = typer.Option(None, help="Folder of runs; ASSAY_RUNS without it.")
_NAMES = typer.Option(None, "--run", help="Only this run; may be given several times.")


def backup(
    file: Path = typer.Argument(help="New archive."),
    runs: Path | None = _RUNS,
    run: list[str] | None = _NAMES,
    with_redis: bool = typer.Option(True, help="Add what Redis holds: results, the judge's books."),
) -> None:
    """Write runs, and Redis's content, to a single archive; runs may continue meanwhile."""
    from assay_shared.service.audit import recorded
    from assay_trainer.service.backup import back_up, other_results

    settings = _settings()
    with recorded("backup", file=file):
        url = settings.redis_url if with_redis else None
        names = back_up(file, runs or settings.runs, run or [], url)
    print(f"{file}: {len(names)} runs, {file.stat().st_size / 2**20:.1f} MiB")
    if not run and (others := other_results(runs or settings.runs)):
        print(f"left out, since only runs are backed up (copy them): {', '.join(others)}")


def restore(
    file: Path = typer.Argument(help="Archive of `assay backup`."),
    runs: Path | None = _RUNS,
    run: list[str] | None = _NAMES,
    with_redis: bool = typer.Option(False, help="Add to Redis what it lacks."),
) -> None:
    """Put runs back from an archive; `assay train --resume` resumes them."""
    from assay_shared.service.audit import recorded
    from assay_trainer.service import backup as backups

    settings = _settings()
    with recorded("restore", file=file):
        url = settings.redis_url if with_redis else None
        names = backups.restore(file, runs or settings.runs, run or [], url)
    for name in names:
        print((runs or settings.runs) / name)


def prune(
    runs: Path | None = typer.Argument(None, help="Folder of runs; ASSAY_RUNS without it."),
    keep: int = typer.Option(1, help="Checkpoints of each stage to keep, in addition to the best."),
    rollouts: bool = typer.Option(False, help="Delete the rollouts of finished runs too."),
    dry_run: bool = typer.Option(False, help="Only show what would be deleted."),
) -> None:
    """Delete checkpoints and weights no longer needed by runs."""
    from assay_shared.service.audit import recorded
    from assay_trainer.learner import retention

    settings = _settings()
    folder = runs or settings.runs
    with recorded("prune", runs=folder, keep=keep, rollouts=rollouts, dry_run=dry_run):
        found = retention.prune(folder, keep=keep, rollouts=rollouts, dry_run=dry_run)
    for pruned in found:
        number = len(pruned.doomed)
        told = pruned.spared_because or f"files and folders: {number}"
        print(f"{pruned.name:<32} {pruned.num_bytes / 2**20:>10.1f} MiB  {told}")
    total = sum(pruned.num_bytes for pruned in found) / 2**20
    print(f"{'would be freed' if dry_run else 'freed':<32} {total:>10.1f} MiB")


def _settings() -> "ServiceSettings":
    """Return the environment's settings; actions are audited to their file."""
    from assay_shared.service.audit import set_up_audit
    from assay_shared.settings.environment import ServiceSettings, read_settings

    settings = read_settings(ServiceSettings)
    set_up_audit("trainer", settings, shown=False)  # a person looks on
    return settings
