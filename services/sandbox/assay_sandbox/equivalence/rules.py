"""Rules: known reasons for the two ways to differ. A difference without a rule is a defect.

A rule gets a difference and may run the program again under plain Python: a claim such as "the
program prints the time" has to show there.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from assay_sandbox.equivalence.slot import REFUSED, UNGRADABLE
from assay_sandbox.equivalence.subjects import RunOutcome, Subject
from assay_shared.types import Status

#: Runs a script under plain Python again, with the given seed for hashes.
Repeat = Callable[[Subject, str], Awaitable[RunOutcome]]
#: Number of repeats under plain Python for a script that may print other text each time.
_NUM_REPEATS = 3
_SAME_SEED = "0"
_MAX_TEXT_BYTES = 100_000
#: A run may take this share of the CPU time of another run of the same program.
_NEAR = 0.7


@dataclass(frozen=True)
class Evidence:
    """A difference: the subject, both outcomes, and the unequal aspects."""

    subject: Subject
    plain: RunOutcome
    slot: RunOutcome
    aspects: tuple[str, ...]
    cpu_limit_s: float


@dataclass(frozen=True)
class Rule:
    """A named reason; `explains` returns True if it is the reason of a difference."""

    name: str
    reason: str
    explains: Callable[[Evidence, Repeat], Awaitable[bool]]


async def _near_time_limit(evidence: Evidence, repeat: Repeat) -> bool:
    """Return True if a way used up its CPU time and the other came close to it."""
    one, other = evidence.plain, evidence.slot
    if _first_difference(one, other, Status.TIME_LIMIT) is None:
        return False
    return min(one.cpu_time_s, other.cpu_time_s) > _NEAR * evidence.cpu_limit_s


async def _prints_what_varies(evidence: Evidence, repeat: Repeat) -> bool:
    """Return True if only stdout differs, and only in lines that vary under plain Python too."""
    if evidence.aspects != ("stdout",) or evidence.subject.way != "script":
        return False
    repeated = [await repeat(evidence.subject, _SAME_SEED) for _ in range(_NUM_REPEATS)]
    prints = [_without_folders(one) for one in (evidence.plain, *repeated)]
    if evidence.slot.stdout in prints:
        return True
    return _differs_where_others_do(evidence.slot.stdout, prints)


def _without_folders(outcome: RunOutcome) -> bytes:
    """Return stdout with a fixed name for the folders of the run."""
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
    """Return True if only stdout differs, and only in paths below plain Python's own folders."""
    if evidence.aspects != ("stdout",) or len(evidence.plain.stdout) > _MAX_TEXT_BYTES:
        return False
    expected = re.escape(evidence.plain.stdout)
    for folder in evidence.plain.folders:
        expected = expected.replace(re.escape(folder.encode()), rb"/[\w./-]+")
    return re.fullmatch(expected, evidence.slot.stdout) is not None


async def _lists_modules(evidence: Evidence, repeat: Repeat) -> bool:
    """Return True if only stdout differs, and the program checks for modules already imported."""
    return evidence.aspects == ("stdout",) and "in sys.modules" in evidence.subject.code


async def _is_ungradable(evidence: Evidence, repeat: Repeat) -> bool:
    """Return True if the slot refuses to judge each differing case, with `hackable: false`."""
    if evidence.subject.way != "assert outside":
        return False
    pairs = zip(evidence.plain.statuses, evidence.slot.statuses, strict=True)
    return all(slot in (plain, REFUSED, UNGRADABLE) for plain, slot in pairs)


def _first_difference(one: RunOutcome, other: RunOutcome, status: Status) -> int | None:
    """Return the index of the first case with this status in just one of both outcomes."""
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
    """Return the name of the first rule to explain a difference; None if none does."""
    for rule in RULES:
        if await rule.explains(evidence, repeat):
            return rule.name
    return None
