"""Comparison of a call's return value with the expected JSON value."""

import collections
import math
from typing import Any

from assay_sandbox.slot.grading.handles import is_handle
from assay_sandbox.slot.messages import wire

MAX_SHOWN = 200


def same(got: Any, expected: Any) -> bool:
    """Return True if the values are equal as in Python, with these exceptions.

    A bool does not equal a number. A tuple or deque equals the list of its items. A numpy array
    equals the list of its items, and a numpy scalar equals its number. NaN equals NaN.
    """
    if is_handle(got):
        return bool(got == expected)
    if wire.is_numpy_data(got):
        got = got.tolist()
    if isinstance(got, bool) or isinstance(expected, bool):
        return got is expected
    if isinstance(got, tuple | list | collections.deque) and isinstance(expected, list):
        pairs = zip(got, expected, strict=False)
        return len(got) == len(expected) and all(same(g, e) for g, e in pairs)
    if isinstance(got, dict) and isinstance(expected, dict):
        return got.keys() == expected.keys() and all(same(got[k], expected[k]) for k in expected)
    if isinstance(got, float) and math.isnan(got):
        return isinstance(expected, float) and math.isnan(expected)
    return bool(got == expected)


def show(value: object) -> str:
    """Return the returned value as text for a message, cut short."""
    if is_handle(value):
        return "an object that stays in the program's process"
    try:
        text = repr(value)
    except Exception:  # an integer of more digits than Python prints, say
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
