"""Baselines: policies without a model. A metric won by a trivial baseline measures nothing.

Baselines read the same texts as any other policy, and do not know the labels either.
"""

import re
from random import Random

from assay_reward.or_debug.evaluate.policy import Script, Scripted

_ROWS = re.compile(r"^subject to:\n((?:  .*\n)*)", re.MULTILINE)
_NAME = re.compile(r"^ *(\w+):", re.MULTILINE)
_MEMBERS = re.compile(r"^Rows: (.*)$", re.MULTILINE)
_BOUND = re.compile(r"^bound (\w+) [<>]=", re.MULTILINE)
_HUGE = "1000000"


def rows_of(prompt: str) -> list[str]:
    """Return the names of the rows, in the prompt's order."""
    found = _ROWS.search(prompt)
    return _NAME.findall(found.group(1)) if found else []


def members_of(observation: str) -> list[str]:
    """Return the names of the rows in an observed irreducible set."""
    found = _MEMBERS.search(observation)
    return [] if found is None or found[1] == "none" else found[1].split(", ")


def is_optimal(observation: str) -> bool:
    return "Status: optimal" in observation


def submit_at_once(prompt: str, rng: Random) -> Script:
    """Give up with the first reply."""
    yield "Action: SUBMIT()"


def constant(prompt: str, rng: Random) -> Script:
    """Give the same reply for ever."""
    while True:
        yield "Action: DROP(c1)"


def first_row(prompt: str, rng: Random) -> Script:
    """Drop the model's first row and blame it."""
    rows = rows_of(prompt)[:1]
    for row in rows:
        yield f"Action: DROP({row})"
    yield f"Action: SUBMIT({', '.join(rows)})"


def relax_everything(prompt: str, rng: Random) -> Script:
    """Widen row after row by a million until the model is feasible."""
    for row in rows_of(prompt):
        if is_optimal((yield f"Action: RELAX({row}, {_HUGE})")):
            break
    yield "Action: SUBMIT()"


def open_bounds(prompt: str, rng: Random) -> Script:
    """Open the bounds of variable after variable in the irreducible set until it is feasible."""
    for column in dict.fromkeys(_BOUND.findall((yield "Action: GET_IIS()"))):
        if is_optimal((yield f"Action: UPDATE_BOUNDS({column}, -inf, inf)")):
            break
    yield "Action: SUBMIT()"


def drop_all_members(prompt: str, rng: Random) -> Script:
    """Drop every row of the irreducible set, and blame them all."""
    members = members_of((yield "Action: GET_IIS()"))
    for member in members:
        yield f"Action: DROP({member})"
    yield f"Action: SUBMIT({', '.join(members)})"


def drop_random_member(prompt: str, rng: Random) -> Script:
    """Drop a random row of the irreducible set until the model is feasible; blame these rows."""
    while members := members_of((yield "Action: GET_IIS()")):
        if is_optimal((yield f"Action: DROP({rng.choice(members)})")):
            break
    yield "Action: SUBMIT()"


def probe(prompt: str, rng: Random) -> Script:
    """Try to drop each member alone, and submit the first sufficient member: the informed baseline.

    If no member is sufficient, continue like `drop_random_member`.
    """
    members = members_of((yield "Action: GET_IIS()"))
    for member in members:
        if is_optimal((yield f"Action: DROP({member})")):
            yield f"Action: SUBMIT({member})"
        yield "Action: RESET()"
    yield from drop_random_member(prompt, rng)


#: The trivial baselines, by name; `probe` is not trivial.
TRIVIAL = {
    "constant": constant,
    "drop_all_members": drop_all_members,
    "drop_random_member": drop_random_member,
    "first_row": first_row,
    "open_bounds": open_bounds,
    "relax_everything": relax_everything,
    "submit_at_once": submit_at_once,
}
BASELINES = TRIVIAL | {"probe": probe}


def baseline(name: str, seed: int = 0) -> Scripted:
    return Scripted(name, BASELINES[name], seed)
