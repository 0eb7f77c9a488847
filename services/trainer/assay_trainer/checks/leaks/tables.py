"""The result of a leak check in a terminal."""

from rich.console import Console
from rich.table import Table

from assay_trainer.checks.leaks.check import LeakFinding, Leaks
from assay_trainer.checks.leaks.findings import Match
from assay_trainer.checks.tables import proof_table

_SHOWN = 3
_MAX_TEXT = 50


def show_leaks(leaks: Leaks, console: Console) -> None:
    """Show counts by part and method, the clearest matches, and the share of leaked tasks."""
    console.print(findings_table(leaks))
    if any(finding.matches for finding in leaks.findings):
        console.print(matches_table(leaks))
    num_controls = sum(one.num_planted for one in leaks.controls)
    console.print(
        f"{len(leaks.leaked)} of {leaks.num_held_out} held-out tasks have leaked into "
        f"{leaks.num_training} training tasks ({leaks.leaked_share:.2%}); "
        f"all {num_controls} planted leaks were found",
        highlight=False,
    )


def findings_table(leaks: Leaks) -> Table:
    """Show by part and method: tasks compared and found, pairs, and planted leaks found."""
    shown = proof_table("part", "method", "compared", "found", "share", "pairs", "controls")
    for one in leaks.findings:
        counts = (str(n) for n in (one.num_compared, one.num_found))
        share = f"{one.share:.2%}" if one.num_compared else "-"
        planted = _num_planted(leaks, one)
        shown.add_row(one.part, one.method, *counts, share, str(one.num_pairs), planted)
    return shown


def _num_planted(leaks: Leaks, finding: LeakFinding) -> str:
    of_it = (c for c in leaks.controls if (c.part, c.method) == (finding.part, finding.method))
    num = sum(one.num_planted for one in of_it)
    return f"{num} of {num}" if num else "-"


def matches_table(leaks: Leaks) -> Table:
    """Show the clearest match of each finding."""
    shown = proof_table("held-out task", "training task", "part", "method", "value", "text")
    for finding in leaks.findings:
        for match in finding.matches[:_SHOWN]:
            shown.add_row(*_cells(match))
    return shown


def _cells(match: Match) -> tuple[str, ...]:
    ids = match.held_out_id, match.training_id
    return *ids, match.part, match.method, f"{match.value:.3f}", match.text[:_MAX_TEXT]
