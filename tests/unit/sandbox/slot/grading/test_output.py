import time

import pytest

from assay_sandbox.slot.grading.output import same_output


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
    assert same_output(got, expected, how, 1e-6) is equal


def test_without_tolerance_numbers_of_any_size_must_be_the_same() -> None:
    expected = "9007199254740993 0.10"
    assert same_output("9007199254740993 0.1", expected, "numbers", 0)
    assert not same_output("9007199254740992 0.1", expected, "numbers", 0)


@pytest.mark.parametrize("how", ["numbers", "loose", "tokens", "lines", "exact", "unordered"])
@pytest.mark.parametrize(
    "got", ["inf", "-inf", "+Infinity", "nan", "1e999", "1e999999999999999999", "-1e999", "", "\0"]
)
def test_no_odd_number_is_close_to_a_number(how: str, got: str) -> None:
    for expected in ("42", "0", "-1e308", "1e-300"):
        assert not same_output(got, expected, how, 1.0)
    assert same_output(got, got, how, 1e-6)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ("inf", "-inf"),
        ("inf", "nan"),
        ("inf", "1e400"),
        ("1e400", "2e400"),
        ("1_000", "1000"),
        ("\uff14\uff12", "42"),
        ("0x2a", "42"),
        ("42\0", "42"),
        ("\u202d42", "42"),
        ("4 2", "42"),
        ("--42", "42"),
        ("1e", "1"),
    ],
)
def test_what_is_no_plain_number_is_compared_as_text(got: str, expected: str) -> None:
    for how in ("numbers", "loose"):
        assert not same_output(got, expected, how, 1e-6)


@pytest.mark.parametrize(
    ("got", "expected"), [("+42", "42"), ("042", "42"), ("42.", "42"), (".5", "0.5"), ("-0", "0")]
)
def test_a_number_may_be_written_otherwise(got: str, expected: str) -> None:
    for how in ("numbers", "loose"):
        assert same_output(got, expected, how, 1e-6)


@pytest.mark.parametrize("how", ["numbers", "loose", "tokens", "lines", "unordered"])
def test_large_output_takes_linear_time(how: str) -> None:
    started = time.monotonic()
    for text in ("9" * 10**6, "1 " * 10**5, "\n" * 10**6, "1" + " " * 10**6 + "1"):
        assert same_output(text, text, how, 1e-6)
        assert not same_output(text + "8", text, how, 0)
    assert time.monotonic() - started < 20
