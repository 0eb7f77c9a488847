"""Texts: surely the same, or perhaps not."""

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
A+|A;A-|A;vitamin A|vitamin;+1|1;a b|b;MPa|mPa;US|us;Paris?|Paris
second president|third president;a few|few;not safe|safe;x_1|x1;1,5|15;(1)|1;Ca2+|Ca2-
10^-3|10^3;~p|p;p & q|p q;$5|5;#1|1;K|k""".replace("\n", ";").split(";"),
)
def test_digits_signs_operators_and_words_do(pair: str) -> None:
    one, _, other = pair.partition("|")
    assert not same_words(one, other)


@pytest.mark.parametrize(
    "pair",
    """c++|C++;C#|c#;vitamin c|vitamin C;Vitamin B12|vitamin b12;malcolm x|Malcolm X
World War I|world war i;John F. Kennedy|john f. kennedy;X-ray machine|x-ray machine
Washington D.C.|washington d.c.;T cells|t cells;Vitamin A deficiency|vitamin a deficiency
the United States of A|the united states of a;plan b|Plan B
class C licence|Class c licence;Ms Jones|ms jones;No|no;mr smith|Mr Smith
He is a doctor|he is doctor;Once Upon A Time|once upon a time;George W Bush|george w bush
I think so|i think so""".replace("\n", ";").split(";"),
)
def test_the_case_of_a_letter_in_a_text_of_words_does_not_count(pair: str) -> None:
    one, _, other = pair.partition("|")
    assert same_words(one, other)


@pytest.mark.parametrize(
    "pair",
    """r|R;The R|the r;pH|PH;Co|CO;mg|Mg;5 mg|5 Mg;10 pm|10 Pm;Aa|aa;n++|N++;allele A|allele a
x and y|X and Y;2 M wide rope|2 m wide rope;velocity v = 3|velocity V = 3
force f(x) here|force F(x) here;R&B|r&b;the function f is odd|the function F is odd
line a and line A|line A and line a;CO2 level|Co2 level;\\sqrt x here|\\sqrt X here
x-y plane|X-Y plane;rated n! overall|rated N! overall;x squared|X squared""".replace(
        "\n", ";"
    ).split(";"),
)
def test_the_case_of_symbols_and_of_letters_alone_does(pair: str) -> None:
    one, _, other = pair.partition("|")
    assert not same_words(one, other)


@pytest.mark.parametrize(
    "pair",
    """vitamin A deficiency|vitamin deficiency;hepatitis a virus|hepatitis virus;A minor|minor
A positive|positive;Group A streptococcus|group streptococcus;type a|type
point A lies here|point lies here""".replace("\n", ";").split(";"),
)
def test_a_letter_that_names_is_no_article(pair: str) -> None:
    one, _, other = pair.partition("|")
    assert not same_words(one, other)


def test_a_text_of_nothing_equals_nothing() -> None:
    assert not same_words("", "")
    assert not same_words("!", "?")
    assert not same_words("the", "")
