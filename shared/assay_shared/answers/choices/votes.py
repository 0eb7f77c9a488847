"""Final answers as votes: what an answer votes for, and which votes are equal."""

from assay_shared.answers.choices.choice import chosen_letter
from assay_shared.answers.choices.options import options_of
from assay_shared.answers.equality import NeedsProof, settled
from assay_shared.answers.extraction import final_answer
from assay_shared.types import Task


def vote_of(task: Task, text: str) -> str | None:
    """Return the final answer in a text: of a choice its letter; None if it names none."""
    choice = task.checks.get("choice")
    if isinstance(choice, dict) and isinstance(choice.get("options"), list):
        options = tuple(str(one) for one in choice["options"])  # type: ignore[union-attr]
        return chosen_letter(text, options_of(options))
    return final_answer(text)


def is_same_vote(one: str, other: str) -> bool:
    """Return True for equal final answers; formulas that need a proof count as different."""
    if one == other:
        return True
    try:
        return settled(other, one) is True
    except NeedsProof:
        return False
