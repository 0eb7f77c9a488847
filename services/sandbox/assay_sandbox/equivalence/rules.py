"""Reasons why the two ways may differ. A difference that none of them explains is a defect.

A rule sees what differs and may run the program again under plain Python: a claim such as "it
prints the time" has to show itself there.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from assay_sandbox.equivalence.slot import REFUSED, UNGRADABLE
from assay_sandbox.equivalence.subjects import RunOutcome, Subject
from assay_shared.types import Status

#: Runs a script under plain Python again, with this seed for hashes.
Repeat = Callable[[Subject, str], Awaitable[RunOutcome]]
#: How often plain Python repeats a script that may print something else each time.
_NUM_REPEATS = 3
_SAME_SEED = "0"
_MAX_TEXT_BYTES = 100_000
#: Of the CPU time: one run of a program may take so much less than another.
_NEAR = 0.7


@dataclass(frozen=True)
class Evidence:
    """A difference: the subject, both outcomes, and what is not equal."""

    subject: Subject
    plain: RunOutcome
    slot: RunOutcome
    aspects: tuple[str, ...]
    cpu_limit_s: float


@dataclass(frozen=True)
class Rule:
    """A reason with a name; `explains` decides whether it is the reason of a difference."""

    name: str
    reason: str
    explains: Callable[[Evidence, Repeat], Awaitable[bool]]


async def _near_time_limit(evidence: Evidence, repeat: Repeat) -> bool:
    """One way used up its CPU time, and the other was not far from it."""
    one, other = evidence.plain, evidence.slot
    if _first_difference(one, other, Status.TIME_LIMIT) is None:
        return False
    return min(one.cpu_time_s, other.cpu_time_s) > _NEAR * evidence.cpu_limit_s


async def _prints_what_varies(evidence: Evidence, repeat: Repeat) -> bool:
    """Only stdout differs, and only in places that plain Python itself does not repeat."""
    if evidence.aspects != ("stdout",) or evidence.subject.way != "script":
        return False
    repeated = [await repeat(evidence.subject, _SAME_SEED) for _ in range(_NUM_REPEATS)]
    prints = [_without_folders(one) for one in (evidence.plain, *repeated)]
    if evidence.slot.stdout in prints:
        return True
    return _differs_where_others_do(evidence.slot.stdout, prints)


def _without_folders(outcome: RunOutcome) -> bytes:
    """What was printed, with one name for folders that are others in each run."""
    text = outcome.stdout
    for folder in outcome.folders:
        text = text.replace(folder.encode(), b"/folder")
    return text


def _differs_where_others_do(text: bytes, others: Sequence[bytes]) -> bool:
    lines = [other.split(b"\n") for other in (text, *others)]
    if len(set(map(len, lines))) != 1:
        return False
    own, *theirs = (list(column) for column in lines)
    varying = {at for at, found in enumerate(zip(*theirs, strict=True)) if len(set(found)) > 1}
    return all(at in varying for at, line in enumerate(own) if line != theirs[0][at])


async def _prints_its_folder(evidence: Evidence, repeat: Repeat) -> bool:
    """Only stdout differs, and only where plain Python prints a path below its own folders."""
    if evidence.aspects != ("stdout",) or len(evidence.plain.stdout) > _MAX_TEXT_BYTES:
        return False
    expected = re.escape(evidence.plain.stdout)
    for folder in evidence.plain.folders:
        expected = expected.replace(re.escape(folder.encode()), rb"/[\w./-]+")
    return re.fullmatch(expected, evidence.slot.stdout) is not None


async def _lists_modules(evidence: Evidence, repeat: Repeat) -> bool:
    """Only stdout differs, of a program that looks which modules are imported already."""
    return evidence.aspects == ("stdout",) and "in sys.modules" in evidence.subject.code


async def _is_ungradable(evidence: Evidence, repeat: Repeat) -> bool:
    """With `hackable: false`, each case that differs is one that the slot refuses to judge."""
    if evidence.subject.way != "assert outside":
        return False
    pairs = zip(evidence.plain.statuses, evidence.slot.statuses, strict=True)
    return all(slot in (plain, REFUSED, UNGRADABLE) for plain, slot in pairs)


def _first_difference(one: RunOutcome, other: RunOutcome, status: Status) -> int | None:
    """Where just one of both has that status."""
    pairs = enumerate(zip(one.statuses, other.statuses, strict=False))
    return next((at for at, (a, b) in pairs if a != b and status in (a, b)), None)


RULES = (
    Rule(
        "near the time limit",
        "one way used up its CPU time and the other at least 70% of it",
        _near_time_limit,
    ),
    Rule(
        "prints what varies",
        "plain Python itself prints something else each time, in the same lines",
        _prints_what_varies,
    ),
    Rule(
        "prints its folder",
        "the program prints where it, or the interpreter, lies",
        _prints_its_folder,
    ),
    Rule(
        "lists what is imported",
        "the interpreter of a slot is warm: it has imported common modules before the program",
        _lists_modules,
    ),
    Rule(
        "ungradable",
        "`hackable: false`: the case cannot be judged without trusting the program",
        _is_ungradable,
    ),
)


async def explain(evidence: Evidence, repeat: Repeat) -> str | None:
    """The name of the first rule that explains a difference; None if none does."""
    for rule in RULES:
        if await rule.explains(evidence, repeat):
            return rule.name
    return None
