"""Compared answers as text: a row for each group, and the findings."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from assay_shared.text.markdown import visible
from assay_shared.verdicts.compared import ComparedGroup, GivenReward, Harm, Nature, Totals
from assay_shared.verdicts.summary import findings

#: What the signs of `verdict_rows` mean.
LEGEND = "r right, w wrong, c cheat; 1 paid, 0 not paid, - no reward"
_LETTERS = {Nature.RIGHT: "r", Nature.WRONG: "w", Nature.CHEAT: "c", Nature.UNKNOWN: "?"}
_MOST_CHARACTERS = 40


def verdict_rows(groups: Sequence[ComparedGroup]) -> Table:
    """Return a table with a row for each group: the truth, and the rewards of both sides."""
    table = Table(box=SIMPLE_HEAD)
    for name in ("group", "truth", "Assay", "usual"):
        table.add_column(name, no_wrap=True)
    table.add_column("harm", justify="right")
    for group in groups:
        table.add_row(
            Text(visible(group.name)[:_MOST_CHARACTERS]),
            "".join(_LETTERS[one.nature] for one in group.answers),
            _marks([(one.assay, one.own_harm) for one in group.answers]),
            _marks([(one.usual, one.harm) for one in group.answers]),
            str(group.num_harmed or ""),
        )
    return table


def summary_lines(totals: Totals) -> list[str]:
    """Return five lines: usual practice, and Assay."""
    return [
        f"{one.label:<21} usual {one.usual:>3}   Assay {one.assay:>3}   {one.detail}"
        for one in findings(totals)
    ]


def _marks(rewards: Sequence[tuple[GivenReward, Harm]]) -> Text:
    text = Text()
    for reward, harm in rewards:
        sign = "-" if reward.value is None else "1" if reward.value > 0 else "0"
        text.append(sign, "bold red reverse" if harm else "green" if sign == "1" else "")
    return text
