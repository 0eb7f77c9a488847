"""Texts reduced to letters and digits."""

import time

import pytest

from assay_trainer.data.dress import versions
from assay_trainer.data.options import windows
from assay_trainer.data.reduction import Form, cleaned, reduced


def left(text: str, form: Form = Form.LETTERS) -> str:
    """Return what a form leaves of a text."""
    return "".join(map(chr, reduced([cleaned(text)], form).codes.tolist()))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Don't, x_1 = 2.5!", "dontx125"),
        ("<b>no</b> x<y and z>w <path d='1'/>", "noxyandzwpathd1"),
        ("&lt;br&gt;a&#39;b", "ab"),
        (r"a\nb\\tc \u0041", "abca"),
        ("\u2460 \u00bd \u0663 \u6f22\u5b57", "11 2 3".replace(" ", "") + "\u6f22\u5b57"),
        ("\U0001d400\U0001f600 half \ud83d", "ahalf"),
    ],
)
def test_letters_and_digits_stay(text: str, kept: str) -> None:
    assert left(text) == kept


def test_signs_stay_where_they_tell_a_text() -> None:
    assert left(" [ ( ) \u2013 \u200b\u201cx\u201d", Form.SIGNS) == "[()-'x'"


def test_a_hostile_text_is_cleaned_in_time_that_grows_with_it() -> None:
    before = time.process_time()
    spaces = " " * 100_000
    for text in (
        '<a x="' * 50_000,
        f"<a{spaces}",
        "\\" * 100_000,
        "&" * 100_000,
        f"A. x\n{spaces}z",
    ):
        left(text)
        list(windows(text, [2]))
        list(versions([text]))
    assert time.process_time() - before < 10
