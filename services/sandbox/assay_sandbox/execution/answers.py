"""Reads a slot's answers without trust: a program may have taken over its slot."""

import json
import marshal
import math
import os
from dataclasses import dataclass
from io import FileIO

_MAX_BYTES = 65536
_TIMES = ("cpu_time_s", "wall_time_s", "idle_time_s", "clean_time_s")
_NUMBERS = (*_TIMES, "peak_memory_bytes")
_FLAGS = ("killed_by_server", "out_of_cpu", "out_of_memory", "out_of_memory_around")
_CASES = "case_cpu_times_s"
_MAX_STATUS = 0xFFFF


@dataclass(frozen=True)
class SlotAnswer:
    """A slot's answer, sent when a program and all processes it started are gone."""

    #: Exit status, as waitpid returns it.
    status: int
    cpu_time_s: float
    wall_time_s: float
    #: Time in which the program neither computed nor waited for a core; counted to 0.1 s.
    idle_time_s: float
    clean_time_s: float
    peak_memory_bytes: int
    killed_by_server: bool
    out_of_cpu: bool
    out_of_memory: bool
    out_of_memory_around: bool
    case_cpu_times_s: tuple[float, ...]


def read_answer(message: bytes) -> SlotAnswer | None:
    """Return a slot's answer, or None if it is invalid: the slot cannot be used again."""
    if len(message) > _MAX_BYTES:
        return None
    try:
        facts = json.loads(message)
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict) or not _is_answer(facts):
        return None
    return SlotAnswer(
        status=facts["status"],
        peak_memory_bytes=int(facts["peak_memory_bytes"]),
        cpu_time_s=float(facts["cpu_time_s"]),
        wall_time_s=float(facts["wall_time_s"]),
        idle_time_s=float(facts["idle_time_s"]),
        clean_time_s=float(facts["clean_time_s"]),
        **{name: facts[name] for name in _FLAGS},
        case_cpu_times_s=tuple(map(float, facts[_CASES])),
    )


def _is_answer(facts: dict[str, object]) -> bool:
    status = facts.get("status")
    return (
        type(status) is int
        and 0 <= status <= _MAX_STATUS
        and (os.WIFEXITED(status) or os.WIFSIGNALED(status))
        and all(_is_amount(facts.get(name)) for name in _NUMBERS)
        and all(isinstance(facts.get(name), bool) for name in _FLAGS)
        and isinstance(cases := facts.get(_CASES), list)
        and all(map(_is_amount, cases))
    )


def _is_amount(value: object) -> bool:
    """Return True for a number valid as a time or a size."""
    return type(value) in (int, float) and 0 <= value < math.inf  # type: ignore[operator]


def load_files(file: FileIO) -> dict[str, bytes | str] | None:
    """Return the files picked up by a slot, or None if the slot did not finish writing them."""
    file.seek(0)
    try:
        found = marshal.loads(file.read())
    except (ValueError, EOFError, TypeError):
        return None
    return found if isinstance(found, dict) else None
