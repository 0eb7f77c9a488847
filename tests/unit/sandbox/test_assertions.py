"""Splitting assertions: what goes in, what stays outside, and what cannot be split."""

import gzip
import json
import os
from pathlib import Path

import pytest

from assay_sandbox.assertions import CannotSplit, split


@pytest.mark.parametrize(
    ("code", "inside", "right", "wrong"),
    [
        ("assert f(1) == 2", "(f(1),)", (2,), (3,)),
        ("assert 2 == f(1), 'a message'", "(f(1),)", (2,), ("2",)),
        ("assert f('a') is None", "(f('a'),)", (None,), (0,)),
        ("assert f(1)", "(f(1),)", ([0],), ([],)),
        ("assert not f(1)", "(f(1),)", (False,), (True,)),
        ("assert abs(f(2) - 1.5) < 1e-6", "(f(2),)", (1.5,), (1.6,)),
        ("assert f(1) == f(2) == 3", "(f(1), f(2),)", (3, 3), (3, 4)),
        ("assert f(1) == 10**3 and f(2) in (1, -2)", "(f(1), f(2),)", (1000, -2), (1000, 2)),
        ("assert set(f([1])) == {1, 2}", "(f([1]),)", ([2, 1, 1],), ([1],)),
        ("assert f(1) == {'a': [1, (2,)]}", "(f(1),)", ({"a": [1, (2,)]},), ({"a": [1, [2]]},)),
        ("assert f(1).x[0] == 1", "(f(1).x[0],)", (1,), (2,)),
        ("assert f(list(range(3))) == 'x' * 3", "(f(list(range(3))),)", ("xxx",), ("xx",)),
        ("METADATA = {'a': 1}\ndef check(c):\n    'words'\n    assert c(1) == 2\ncheck(solve)",
         "(solve(1),)", (2,), (1,)),
    ],
)  # fmt: skip
def test_the_expected_side_stays_outside(
    code: str, inside: str, right: tuple[object, ...], wrong: tuple[object, ...]
) -> None:
    (assertion,) = split(code)
    assert assertion.inside == inside
    assert assertion.holds(right)
    assert not assertion.holds(wrong)


@pytest.mark.parametrize(
    "code",
    [
        "assert (",
        "",
        "assert True",
        "assert 1 == 2",
        "x = f(1)\nassert x == 2",
        "for i in range(3): assert f(i) == i",
        "def helper(x): return x\nassert f(1) == helper(1)",
        "assert isinstance(f(1), int)",
        "assert f(1) == expected",
        "assert f(1) == 9**9**9",
        "import math\nassert f(1) == math.pi",
        "def check(c):\n    assert c(1) == 2",
        "def check(c):\n    assert c(1) == 2\ncheck(f)\ncheck(g)",
        "assert f(1) == 1 / 0",
    ],
)
def test_more_than_assertions_cannot_be_split(code: str) -> None:
    with pytest.raises(CannotSplit):
        split(code)


def test_imports_go_with_the_assertions_after_them() -> None:
    first, second = split("assert f(1) == 1\nimport math\nassert f(math.pi) == 3")
    assert (first.setup, second.setup) == ("", "import math")


@pytest.mark.skipif("ASSAY_DATA" not in os.environ, reason="needs real data: set ASSAY_DATA")
def test_nearly_all_of_humaneval_can_be_split() -> None:
    path = Path(os.environ["ASSAY_DATA"]) / "HumanEval.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    whole = []
    for row in rows:
        try:
            split(f"{row['test']}\ncheck({row['entry_point']})")
        except CannotSplit:
            whole.append(row["task_id"])
    assert [name.rpartition("/")[2] for name in whole] == [
        "32",
        "38",
        "44",
        "50",
        "53",
        "129",
        "151",
    ]
