"""The executor's part in the result of an operator; an answer has to hold some of it."""

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    Plain,
    Record,
    ReplyRecord,
)
from assay_reward.workflows.operators.support.texts import ReplyText


def marked(record: Record, arguments: Arguments, has_asked: bool) -> Record:
    """Return a result whose texts tell whether the executor had a part in them.

    It has a part if the call asked it, or if an argument holds something of a reply. An argument
    that a call without a request gives back stays what it was.
    """
    given = [item for value in arguments.values() for item in _items(value)]
    if not has_asked and not any(isinstance(one, ReplyText) for one in given):
        return record
    kept = set() if has_asked else set(map(id, given))
    return ReplyRecord((name, _with_mark(value, kept)) for name, value in record.items())


def _with_mark(value: Plain, kept: set[int]) -> Plain:
    if not isinstance(value, str) or isinstance(value, ReplyText) or id(value) in kept:
        return value
    return ReplyText(value)


def _items(value: Plain) -> tuple[Plain, ...]:
    return value if isinstance(value, tuple) else (value,)
