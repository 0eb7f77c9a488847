"""The page of a trial: one HTML file without a script that needs no network."""

from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from assay_shared.service.browsers import content_policy
from assay_shared.text.html_pages import templates_in
from assay_shared.tryout.trial import ScoredTrial
from assay_shared.tryout.trial_services import RETRY_S
from assay_shared.verdicts.compared import ComparedAnswer, totals_of
from assay_shared.verdicts.fragment import verdict_overview, verdict_style, verdict_tables
from assay_shared.verdicts.summary import findings

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class KilledAnswer:
    """The answer that the sandbox was killed under, with its row's anchor on the page."""

    anchor: str
    answer: ComparedAnswer
    advantage: float | None
    usual_advantage: float
    #: The number of other answers to the task with a reward, by usual practice.
    num_paid: int


def trial_page(trial: ScoredTrial) -> str:
    """Return the page; everything that an answer contains is escaped."""
    style = (_TEMPLATES / "page.css").read_text() + verdict_style()
    totals = totals_of(trial.groups)
    inline = f"<style>{style}</style>"
    return (
        templates_in(_TEMPLATES)
        .get_template("page.html.j2")
        .render(
            policy=content_policy(inline).replace("; frame-ancestors 'none'", ""),
            style=Markup(style),
            totals=totals,
            findings=findings(totals),
            overview=verdict_overview(trial.groups),
            tables=verdict_tables(trial.groups),
            killed=_killed(trial),
            start_s=trial.start_s,
            took_s=trial.took_s,
            retry_s=RETRY_S,
        )
    )


def _killed(trial: ScoredTrial) -> KilledAnswer | None:
    """Return the first answer that failed and was asked again; None without one."""
    for at, group in enumerate(trial.groups, 1):
        for place, (one, own, usual) in enumerate(group.rows, 1):
            if one.earlier:
                num_paid = sum(bool(other.usual.value) for other in group.answers if other != one)
                return KilledAnswer(f"v-g{at}-{place}", one, own, usual, num_paid)
    return None
