"""Values on the way between a program's process and its grader's."""

import collections
import datetime
import decimal
import fractions
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from assay_sandbox.slot.messages.decoder import ValueDecoder
from assay_sandbox.slot.messages.encoder import Encoder
from assay_sandbox.slot.messages.wire import CannotEncode, CannotGrade, MalformedMessage

P = collections.namedtuple("P", "x y")
_ATOMS = [
    *(None, True, False, Ellipsis, NotImplemented, 0, -1, 255, 256, -(2**80), 10**5000, 0.1, -0.0),
    *(float("inf"), 1e-320, 1 + 2j, "", "caf\u00e9\x00\ud800", b"\xff\0", bytearray(b"a")),
    *(range(3, 9, 2), slice(1, None, 2), decimal.Decimal("-1.50"), decimal.Decimal("Infinity")),
    *(fractions.Fraction(-1, 3), datetime.date(2024, 2, 29), datetime.timedelta(-1, 5, 7)),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC, fold=1),
    datetime.time(1, 2, 3),
]


def fail(*args: object) -> Any:
    raise MalformedMessage("foreign")


def there(value: object) -> Any:
    return ValueDecoder(fail).loads(Encoder(fail).dumps(value))


def make(rng: random.Random, depth: int) -> Any:
    """Return a value of any kind sent by value."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(_ATOMS)
    items = [make(rng, depth - 1) for _ in range(rng.randrange(4))]
    keys = [rng.choice([1, "a", (2, "b"), None, b"k", 2.5]) for _ in items]
    pairs = dict(zip(keys, items, strict=True))
    kinds: list[Callable[[], object]] = [
        *(lambda: items, lambda: tuple(items), lambda: pairs, lambda: set(keys)),
        *(lambda: frozenset(keys), lambda: collections.OrderedDict(pairs), lambda: P(items, pairs)),
        *(lambda: collections.deque(items, 9), lambda: collections.Counter(keys)),
    ]
    return rng.choice(kinds)()


def test_values_arrive_as_they_were() -> None:
    rng = random.Random(20261122)
    for _ in range(3000):
        value = make(rng, 4)
        found = there(value)
        assert found == value
        assert type(found).__name__ == type(value).__name__


@pytest.mark.parametrize(
    "items",
    [
        list(range(-50, 50)),
        [2**63 - 1, -(2**63)] * 10,
        [2**63] * 20,
        [0.1, -0.0, float("inf"), 1e-320] * 5,
        ["", "caf\u00e9", "\ud83d", "\ude00", "\x00", "\U0001f600"] * 4,
        [""] * 20,
        [True, False] * 10,
        [1, 1.0] * 10,
        [[*range(20)], [*"abcdefghijklmnopqrstu"]] * 2,
    ],
)
@pytest.mark.parametrize("kind", [list, tuple, collections.deque])
def test_many_plain_values_arrive_as_they_were(kind: Any, items: list[Any]) -> None:
    found = there(kind(items))
    assert (type(found), list(map(repr, found))) == (kind, list(map(repr, items)))


def test_large_containers_are_read_as_blocks() -> None:
    for items in (list(range(10**5)), list(map(str, range(10**5))), [0.5] * 10**5):
        assert len(Encoder(fail).dumps(items)) < 17 * 10**5
        assert there(items) == items
        assert there(dict.fromkeys(items).keys()) == dict.fromkeys(items).keys()
    assert there(set(range(10**5))) == set(range(10**5))
    with pytest.raises(CannotGrade):
        there(set(map(str, range(10**5))))


def test_nan_identity_and_cycles_survive() -> None:
    assert math.isnan(there([float("nan")])[0])
    assert math.copysign(1, there(-0.0)) == -1
    assert repr(there(decimal.Decimal("-1.50"))) == "Decimal('-1.50')"
    row = [1]
    found = there([row, row, {"a": row}])
    assert found[0] is found[1] is found[2]["a"]
    row.append(row)  # type: ignore[arg-type]
    found = there(row)
    assert found[1] is found


def test_what_is_too_deep_or_too_large_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(1000):
        deep = [deep]
    for value in (deep, b"x" * (65 * 2**20)):
        with pytest.raises(CannotEncode):
            Encoder(fail).dumps(value)


def test_no_message_does_more_than_fail() -> None:
    rng = random.Random(7)
    allowed = (MalformedMessage, TypeError, ValueError, OverflowError, CannotGrade, MemoryError)
    for _ in range(20_000):
        message = bytearray(Encoder(fail).dumps(make(rng, 3)))
        for _ in range(rng.randrange(1, 4)):
            if message:
                message[rng.randrange(len(message))] = rng.randrange(256)
        try:
            ValueDecoder(fail).loads(bytes(message))
        except allowed:
            pass
        except (KeyError, AttributeError, ArithmeticError, LookupError) as error:
            raise AssertionError(bytes(message)) from error


@pytest.mark.parametrize("kind", ["small", "large", "text", "pairs"])
def test_a_set_keeps_its_order(kind: str) -> None:
    rng = random.Random(kind)
    makers: dict[str, Callable[[], object]] = {
        "small": lambda: rng.randrange(-50, 200),
        "large": lambda: rng.randrange(10**12),
        "text": lambda: "".join(rng.choices("abcdefghij", k=5)),
        "pairs": lambda: (rng.randrange(10), rng.randrange(10)),
    }
    lost = 0
    for number in range(200):
        items = [makers[kind]() for _ in range(rng.choice([2, 5, 9, 20, 60]))]
        value = set(items) if number % 2 else set(frozenset(items))
        if number % 3 == 0:
            value.difference_update(items[::3])
        try:
            found = there(value)
        except CannotGrade:
            lost += 1
            continue
        assert list(found) == list(value)
    assert lost <= 4
