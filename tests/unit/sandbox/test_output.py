import pytest

from assay_sandbox.output import same_output
from assay_shared.types import StdinCase


@pytest.mark.parametrize(
    ("how", "got", "expected", "equal"),
    [
        ("lines", "1 2\n", "1 2", True),
        ("lines", "1 2  \n\n\n", "1 2\n", True),
        ("lines", "1\r\n2\r\n", "1\n2\n", True),
        ("lines", "1  2", "1 2", False),
        ("lines", " 1", "1", False),
        ("lines", "1\n\n2", "1\n2", False),
        ("lines", "", "\n", True),
        ("exact", "1\n", "1\n", True),
        ("exact", "1\n", "1", False),
        ("tokens", " 1\n\n2 ", "1 2", True),
        ("tokens", "12", "1 2", False),
        ("unordered", "b\na\n", "a\nb", True),
        ("unordered", "a\na\nb", "a\nb\nb", False),
        ("numbers", "0.3333333 x", "0.33333334 x", True),
        ("numbers", "1e9", "1000000000.5", True),
        ("numbers", "0.334", "0.333", False),
        ("numbers", "1 2", "1", False),
        ("numbers", "nan", "nan", True),
        ("numbers", "nan", "1", False),
        ("numbers", "yes", "no", False),
        ("numbers", "inf", "Infinity", True),
        ("numbers", "1e999999999", "-1e999999999", False),
        ("loose", " Yes\n", "YES", True),
        ("loose", "a  b", "a b", False),
        ("loose", "a b", "a\nb", False),
        ("loose", "0.500001", "0.5", False),
        ("loose", "0.5000004", "0.5", True),
        ("loose", "0.5000004 1", "0.5 1", False),
        ("loose", "0.0000001", "0", False),
        ("loose", "-0", "0.0", True),
        ("loose", "", " \n", True),
    ],
)
def test_output_is_compared_as_the_case_asks(
    how: str, got: str, expected: str, equal: bool
) -> None:
    case = StdinCase.model_validate({"stdin": "", "expected_stdout": expected, "compare": how})
    assert same_output(got, case) is equal


def test_without_tolerance_numbers_of_any_size_must_be_the_same() -> None:
    fields = {"stdin": "", "expected_stdout": "9007199254740993 0.10", "compare": "numbers"}
    case = StdinCase.model_validate(fields | {"tolerance": 0})
    assert same_output("9007199254740993 0.1", case)
    assert not same_output("9007199254740992 0.1", case)
