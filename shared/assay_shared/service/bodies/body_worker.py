"""The process behind `large_bodies`: reads a body, and sends its model in parts.

In: a line `module name length half`, and `length` bytes; `half` is 1 if texts may have lone
surrogates. Out: frames, each a length in eight bytes and a pickled value: "model" and then parts,
or a `BodyProblem`, or "unreadable" or "too many"; at last an empty frame.
"""

import importlib
import pickle
import resource
import sys
from collections.abc import Iterator
from typing import BinaryIO

from assay_shared.service.bodies.body import TooManyValues, UnreadableBody, read_body
from assay_shared.service.bodies.parts import Cutter

#: Memory limit of this process; a body that needs more is unreadable.
_MEMORY_BYTES = 3 * 2**30


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Read bodies until there are no more."""
    while line := requests.readline():
        module, name, length, half = line.split()
        body = requests.read(int(length))
        for value in _answer(module.decode(), name.decode(), body, half == b"1"):
            frame = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
            answers.write(len(frame).to_bytes(8) + frame)
        answers.write(bytes(8))
        answers.flush()


def _answer(module: str, name: str, body: bytes, half: bool) -> Iterator[object]:
    model = getattr(importlib.import_module(module), name)
    try:
        found = read_body(model, body, takes_half_characters=half)
    except TooManyValues:
        yield "too many"
        return
    except (UnreadableBody, MemoryError):
        yield "unreadable"
        return
    if not isinstance(found, model):
        yield found
        return
    yield "model"
    yield from Cutter().cut(found)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    serve(sys.stdin.buffer, sys.stdout.buffer)
