"""Lists of solutions under labels, and the labels in the executor's replies."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from assay_reward.workflows.operators.support.texts import joined

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: A letter that stands alone may be an answer, such as an option: then the labels are S1, S2, ...
_ALONE: Final = re.compile(r"\b[B-HJ-Z]\b|^\W*[AI]\W*$|\W[AI]\W*$")
#: Characters of a reply that are read: its beginning and its end.
_MAX_READ: Final = 2000
_DECIDING: Final = (
    r"best|choose|chose|choice|chosen|pick|select|selected|answer|letter|label|vote|prefer|"
    r"agree(?:s|d)?|boxed|correct|go with"
)


def labels_of(solutions: Sequence[str]) -> list[str]:
    """Return a label for each solution: letters, or S1, S2, ... if a letter could be an answer."""
    if len(solutions) <= len(_LETTERS) and not any(_ALONE.search(one) for one in solutions):
        return list(_LETTERS[: len(solutions)])
    return [f"S{number}" for number in range(1, len(solutions) + 1)]


def labelled(solutions: Sequence[str]) -> str:
    """Return the solutions one after another, each under its label."""
    pairs = zip(labels_of(solutions), solutions, strict=True)
    return joined((joined((f"{label}:\n", text)) for label, text in pairs), "\n\n")


def chosen(reply: str, solutions: Sequence[str]) -> int | None:
    """Return the index of the solution that a reply chooses; None if that cannot be read.

    The reply is a label or a solution, perhaps with signs around it; or the last label after a
    deciding word (`the best is B`); or it names a single label.
    """
    labels = labels_of(solutions)
    said = reply.strip().strip("*_`\"'()[]{}.:$ \n")
    if said.upper() in labels:
        return labels.index(said.upper())
    equal = [place for place, one in enumerate(solutions) if one.strip() == reply.strip()]
    if equal:
        return equal[0]
    half = _MAX_READ // 2
    read = reply if len(reply) <= _MAX_READ else f"{reply[:half]}\n{reply[-half:]}"
    label = r"S\d{1,3}" if labels[0] == "S1" else r"[A-Z]"
    # "A good choice" and "I think" name nothing.
    token = rf"\b({label})\b"
    if labels[0] == "A":
        token = r"\b([B-HJ-Z]|[AI](?!'|\s+(?!(?:or|and|is|are|has)\b)[a-z]))\b"
    decided = re.findall(
        rf"\b(?i:{_DECIDING})(?i:\s+(?:solution|option|one|is|are|on|for|the|number))*"
        rf"[\W_]{{0,6}}(?i:(?:is|solution|option)\b[\W_]{{0,6}}){{0,2}}\(?({label})\b",
        read,
    )
    for found in (decided[-1:], list(dict.fromkeys(re.findall(token, read)))):
        if len(found) == 1 and found[0] in labels:
            return labels.index(found[0])
    named = re.findall(rf"\b(?i:solution|option)\W{{0,4}}({label})\b", read)
    return labels.index(named[0]) if len(set(named)) == 1 and named[0] in labels else None


def most_frequent(solutions: Sequence[str]) -> int:
    """Return the index of the text that most solutions share; of a tie, the earliest."""
    keys = [" ".join(text.split()).lower() for text in solutions]
    counts = Counter(keys)
    return max(range(len(keys)), key=lambda place: (counts[keys[place]], -place))


def winner(votes: Sequence[int]) -> int:
    """Return the index with the most votes; of a tie, the earliest."""
    counts = Counter(votes)
    return min(counts, key=lambda place: (-counts[place], place))
