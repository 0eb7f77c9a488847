"""Reports of a measurement: tables for people, and JSON."""

from collections import Counter
from collections.abc import Iterator
from difflib import unified_diff

from assay_sandbox.equivalence.measure import Difference, EquivalenceResult
from assay_sandbox.equivalence.rules import RULES
from assay_sandbox.equivalence.subjects import WAYS, RunOutcome

HEADINGS = ("data set", "way", "programs", "equal", "explained", "unexplained")
_MAX_LINES, _MAX_LINE = 8, 160


def rows(seen: EquivalenceResult) -> Iterator[tuple[str, ...]]:
    """Yield a table's rows: a row for each data set and way, and their sum."""
    explained = Counter(_key(one) for one in seen.differences if one.rule is not None)
    unexplained = Counter(_key(one) for one in seen.unexplained)
    order = sorted(seen.num_by_set, key=lambda key: (key[0], WAYS.index(key[1])))
    for key in order:
        whole = seen.num_by_set[key]
        equal = whole - explained[key] - unexplained[key]
        yield (*key, *map(str, (whole, equal, explained[key], unexplained[key])))
    equal = seen.num_subjects - len(seen.differences)
    sums = (seen.num_subjects, equal, explained.total(), unexplained.total())
    yield ("all", "", *map(str, sums))


def explanation_rows(seen: EquivalenceResult) -> Iterator[tuple[str, ...]]:
    """Yield a table's rows: a row for each rule with its number of explained differences."""
    counts = Counter(one.rule for one in seen.differences)
    for rule in RULES:
        if counts[rule.name]:
            yield (rule.name, str(counts[rule.name]), rule.reason)


def describe(one: Difference) -> Iterator[str]:
    """Yield lines about a difference: the program, the aspects, and the differing output."""
    subject = one.subject
    yield f"{subject.corpus}: {subject.id} ({subject.way}): {', '.join(one.aspects)}"
    for title, outcome in (("plain", one.plain), ("slot", one.slot)):
        yield f"  {title}: {_shown_end(outcome)}"
    if "stdout" in one.aspects:
        yield from (f"  {line}" for line in _differing_lines(one.plain.stdout, one.slot.stdout))


def facts(seen: EquivalenceResult) -> dict[str, object]:
    """Return the measurement for JSON: the table, and each difference with both outcomes."""
    return {
        "sets": [dict(zip(HEADINGS, row, strict=True)) for row in rows(seen)],
        "grading": seen.num_by_grading,
        "rules": {rule.name: rule.reason for rule in RULES},
        "differences": [_facts_of(one) for one in seen.differences],
        "other_stderr": [
            {"id": subject.id, "set": subject.corpus, "lines": _differing_lines(a.stderr, b.stderr)}
            for subject, a, b in seen.other_stderr
        ],
    }


def _facts_of(one: Difference) -> dict[str, object]:
    return {
        "set": one.subject.corpus,
        "id": one.subject.id,
        "way": one.subject.way,
        "aspects": one.aspects,
        "rule": one.rule,
        "plain": _shown_end(one.plain),
        "slot": _shown_end(one.slot),
        "stdout": _differing_lines(one.plain.stdout, one.slot.stdout),
        "code": one.subject.code[-20_000:],
        "cases": one.subject.cases,
    }


def _key(one: Difference) -> tuple[str, str]:
    return one.subject.corpus, one.subject.way


def _shown_end(outcome: RunOutcome) -> str:
    """Return the statuses, exit code, CPU time and message of an outcome as text."""
    statuses = ", ".join(
        status if count == 1 else f"{count} {status}"
        for status, count in Counter(outcome.statuses).items()
    )
    ended = "" if outcome.exit_code is None else f", exit code {outcome.exit_code}"
    said = next((message for message in outcome.messages if message), "") or _last_line(outcome)
    return f"{statuses}{ended}, {outcome.cpu_time_s:.2f} s{': ' if said else ''}{said[:_MAX_LINE]}"


def _last_line(outcome: RunOutcome) -> str:
    return next(iter(outcome.stderr.decode(errors="replace").rstrip().splitlines()[-1:]), "")


def _differing_lines(plain: bytes, slot: bytes) -> list[str]:
    """Return the first differing lines: plain Python's with a minus, the slot's with a plus."""
    before, after = (text.decode(errors="backslashreplace").splitlines() for text in (plain, slot))
    found = [
        line[:_MAX_LINE]
        for line in unified_diff(before, after, n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]
    more = len(found) - _MAX_LINES
    return found[:_MAX_LINES] + ([f"... {more} more"] if more > 0 else [])
