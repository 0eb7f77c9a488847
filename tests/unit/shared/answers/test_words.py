"""Texts: what is surely the same, and what may not be."""

import pytest

from assay_shared.answers.words import same_words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Eiffel Tower!", "eiffel  tower"),
        ("an apple", "Apple"),
        ("The 42.", "42"),
        ("'Paris'", "paris."),
        ("well-known", "well known"),
        ("red, green and blue", "red green and blue"),
        ("C++", "C++."),
        ("-5", " -5 "),
    ],
)
def test_case_articles_and_closing_marks_do_not_count(one: str, other: str) -> None:
    assert same_words(one, other)


@pytest.mark.parametrize(
    "pair",
    """-5|5;1.5|15;3.14|314;x+y|x-y;a>b|a<b;1/2|12;2^3|23;10:30|1030;50%|50;C++|C;C#|C;n!|n;5!|5
A+|A;A-|A;vitamin A|vitamin;+1|1;a b|b;MPa|mPa;US|us;Paris?|Paris;second president|third president
a few|few;not safe|safe;x_1|x1;1,5|15;(1)|1;Ca2+|Ca2-;10^-3|10^3;~p|p;p & q|p q;$5|5;#1|1
K|k""".replace("\n", ";").split(";"),
)
def test_digits_signs_operators_and_words_do(pair: str) -> None:
    one, _, other = pair.partition("|")
    assert not same_words(one, other)


def test_a_text_of_nothing_equals_nothing() -> None:
    assert not same_words("", "")
    assert not same_words("!", "?")
    assert not same_words("the", "")
