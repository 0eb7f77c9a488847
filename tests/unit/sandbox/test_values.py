import json
import subprocess
import sys

import pytest

from assay_sandbox.values import MalformedValue, Opaque, decode, show


def through_the_harness(expression: str) -> object:
    """What the harness makes of a value in its own process, decoded on our side."""
    return decode(encoded(expression))


def encoded(expression: str) -> bytes:
    code = f"from assay_sandbox.slot.harness import encode\nprint(encode({expression}))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return shown.stdout.strip()


@pytest.mark.parametrize(
    "expression",
    [
        "None",
        "True",
        "-7",
        "2**80",
        "-2**80",
        "1.5",
        "1e300",
        "0.1 + 0.2",
        "'caf\\u00e9 \\n \\x00 \\U0001f600 \\ud800'",
        "[1, [2, (3, 'a')]]",
        "(1, 2)",
        "{1, 2}",
        "{'a': (1, 2), 3: None, (4, 5): [6]}",
        "float('inf')",
    ],
)
def test_values_arrive_as_they_were(expression: str) -> None:
    value = through_the_harness(expression)
    original = eval(expression)
    assert value == original
    assert type(value) is (frozenset if isinstance(original, set) else type(original))


def test_what_is_no_plain_value_arrives_as_its_type_alone() -> None:
    assert show(through_the_harness("object()")) == "a object"
    assert show(through_the_harness("(x for x in ())")) == "a generator"
    # A subclass could compare as it likes: only exact types are values.
    assert isinstance(through_the_harness("type('Sly', (int,), {})(3)"), Opaque)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"[1",
        b"nonsense",
        b'{"tuple":1}',
        b'{"a":1,"b":2}',
        b"[" * 10_000,
        b"\xff",
        b'{"int":[]}',
    ],
)
def test_forged_records_are_told_from_values(record: bytes) -> None:
    with pytest.raises(MalformedValue):
        decode(record)


def test_a_record_is_one_line_of_ascii_whatever_the_program_returns() -> None:
    record = encoded("'\\n\\u2028\\u00e9'")
    assert record.isascii()
    assert b"\n" not in record
    assert json.loads(record) == "\n\u2028\u00e9"
