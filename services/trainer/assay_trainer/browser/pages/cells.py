"""The coloured cell of a sample in a list of groups."""

from dataclasses import dataclass

from assay_trainer.browser.reading.parsing import FAILED, NO_SAMPLE
from assay_trainer.browser.reading.rows import SampleCell

_SIGNS = {
    "accepted": "✓",
    "wrong_answer": "✗",
    "syntax_error": "S",
    "compile_error": "C",
    "runtime_error": "R",
    "time_limit": "T",
    "memory_limit": "M",
    FAILED: "!",
}
#: Colours from a reward of 0 to a reward of 1.
_NUM_SHADES = 5


@dataclass(frozen=True)
class CellLook:
    """A class of the style sheet, a sign, and words for people who see no colour."""

    style: str
    sign: str
    words: str


def look(cell: SampleCell) -> CellLook:
    """Return the look of a sample's cell."""
    name = "the whole group" if cell.place == NO_SAMPLE else f"sample {cell.place}"
    if cell.outcome == FAILED:
        style, words = "c-failed", f"{name}: failed ({cell.failure_class}), no reward"
    else:
        reward = "unknown" if cell.reward is None else f"{cell.reward:.3g}"
        shade = round(min(1.0, max(0.0, cell.reward or 0.0)) * (_NUM_SHADES - 1))
        style = "c-right" if cell.outcome == "accepted" else f"c-{shade}"
        words = f"{name}: {cell.outcome}, reward {reward}"
    if not cell.matches:
        style += " c-other"
    return CellLook(style, _SIGNS.get(cell.outcome, cell.outcome[:1].upper() or "?"), words)
