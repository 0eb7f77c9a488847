"""What the comparison shows, in five sentences: for a terminal and for a page."""

from dataclasses import dataclass

from assay_shared.verdicts.compared import Harm, Nature, Totals


@dataclass(frozen=True)
class SummaryLine:
    """One line of the summary: a label, a count of usual practice, one of Assay, of how many."""

    label: str
    usual: str
    assay: str
    detail: str


def findings(totals: Totals) -> list[SummaryLine]:
    """Return the five findings."""
    natures, recovered = totals.natures, totals.num_recovered

    def line(label: str, harm: Harm, detail: str) -> SummaryLine:
        return SummaryLine(label, str(totals.usual[harm]), str(totals.assay[harm]), detail)

    return [
        line(
            "cheats paid",
            Harm.CHEAT_PAID,
            f"of {natures[Nature.CHEAT]} answers that play the grader",
        ),
        line(
            "right answers unpaid", Harm.RIGHT_REFUSED, f"of {natures[Nature.RIGHT]} right answers"
        ),
        line("wrong answers paid", Harm.WRONG_PAID, f"of {natures[Nature.WRONG]} wrong answers"),
        SummaryLine(
            "failures read as 0",
            str(totals.usual[Harm.FAILURE_AS_ZERO]),
            "0",
            f"{recovered} asked again and scored, {totals.num_failed} left out of its group",
        ),
        SummaryLine(
            "pushed the wrong way",
            str(totals.usual_misled),
            str(totals.assay_misled),
            f"of {totals.num_answers} advantages; the lowest of a right answer: "
            f"{totals.worst:+.2f}".replace("-", "\N{MINUS SIGN}"),
        ),
    ]
