"""Several boxes with a common answer: \\boxed{1} and \\boxed{2}."""

import re
from collections import deque
from collections.abc import Iterable

from assay_shared.answers.formulas.latex import plain
from assay_shared.answers.values.quantity import quantity_of

#: The content of a box, with its start and end.
_Box = tuple[str, int, int]
_SPACE = r"(?:[\s$]|\\[,;: ]|\\q?quad\b)*+"
#: Text permitted between such boxes, with the name of the next boxed value.
_JOINT = re.compile(
    rf"{_SPACE}(?:[,;]\s*+(?:and|or)?|and|or|\\text\{{\s*+(?:and|or)\s*+\}}){_SPACE}"
    r"(?:[A-Za-z]\s?=[\s$]*+)?"
)
_NAME_BEFORE = re.compile(r"(?<![\w\\}])([A-Za-z])\s?=[\s$]*\Z")
_MAX_AROUND = 24
_MAX_JOINED = 16


def joined(text: str, before: Iterable[_Box], last: _Box) -> _Box:
    """Return the last box joined with earlier boxes, if only commas, "and" or "or" part them.

    Boxes with the same content, or the same number, count as a single box.
    """
    several, word = [last], ";"
    for box in reversed(deque(before, maxlen=_MAX_JOINED)):
        joint = _joint(text, box[2], several[-1][1])
        if joint is None:
            break
        several.append(box)
        word = " or" if "or" in joint else word
    if len({quantity_of(plain(content)) or content for content, _, _ in several}) == 1:
        return last
    contents = (_with_name(text, box) for box in reversed(several))
    return f"{word} ".join(contents), several[-1][1], last[2]


def _joint(text: str, start: int, end: int) -> str | None:
    found = _JOINT.fullmatch(text, start, end) if end - start <= _MAX_AROUND else None
    return None if found is None else found.group()


def _with_name(text: str, box: _Box) -> str:
    """Return the content of a box, with its name, if any: x = \\boxed{1}."""
    content, start, _ = box
    name = _NAME_BEFORE.search(text[max(0, start - _MAX_AROUND) : start])
    return f"{name[1]} = {content}" if name is not None else content
