"""The bound on cases that use up their time: after some of them, the other cases do not run."""

from collections.abc import Sequence

from assay_shared.types import CaseResult, Limits, Status

#: A program that never ends may use this much time by the clock in its cases, one after another.
_MAX_WASTED_S = 30.0


def max_timeouts(limits: Limits) -> int:
    """Return the number of cases that may end at a time limit before the other cases are skipped.

    Otherwise a program that never ends would take `wall_time_s` for each of up to 1000 cases, its
    caller would give up waiting, and a wrong answer would get no verdict.
    """
    return max(1, int(_MAX_WASTED_S / limits.wall_time_s))


def skipped(limits: Limits) -> CaseResult:
    """Return the result of a case that does not run because too many before it timed out."""
    message = f"not run: {max_timeouts(limits)} cases before it had ended at a time limit"
    return CaseResult(status=Status.TIME_LIMIT, message=message)


def first_skipped(results: Sequence[CaseResult], limits: Limits) -> int:
    """Return the index of the first case to skip, in the order of the cases; their number if none.

    Cases run in parallel, and the result may not depend on their timing: a case also counts as
    skipped if it ran before the last of the earlier timeouts was known.
    """
    left = max_timeouts(limits)
    for index, result in enumerate(results):
        left -= result.status is Status.TIME_LIMIT
        if left == 0:
            return index + 1
    return len(results)
