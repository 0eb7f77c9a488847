"""Answers and references: proofs of equality, and near misses of every kind."""

import itertools

import pytest

from assay_shared.answers.equality import NeedsProof, equal_by_proof, settled
from assay_shared.answers.extraction import final_answer, whole_reference

EQUAL = r"""
\frac{1}{2} | \dfrac12 | 0.5 | 1/2 | ½ | \frac{2}{4} | 50\% | .5 | 0.50
2x+3 | 3+2x | 2x + 3 | 2\cdot x+3 | 2*x+3
x^2-1 | (x-1)(x+1) | -1+x^{2} | (x+1)(x-1)
\sqrt{8} | 2\sqrt2 | 2\sqrt{2} | √8 | sqrt(8) | 8^{1/2} | 2 \sqrt 2
3\pi | 3 pi | 3π | \pi \cdot 3
(1,2) | ( 1, 2 ) | \left(1,2\right) | (1, \frac{4}{2})
(-\infty, 3] | x \le 3 | x\leq 3 | 3 \geq x | x \in (-\infty,3] | (-∞,3]
[0,1] | 0 \le x \le 1 | 1 \ge x \ge 0 | \left[0, 1\right]
\{1,2,3\} | 3,2,1 | \{3,1,2\} | 1, 2, 3 | 1, 2 \text{ and } 3
(0,1)\cup(2,3) | (2,3) \cup (0,1)
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}
x=5 | 5 | x = 5.0 | x = y = 5
y=2x+3 | 2x+3 | y = 3 + 2x
2x+3y=6 | 3y+2x=6 | 6=2x+3y
\pm 2 | 2, -2 | -2 \text{ or } 2 | \pm\frac{4}{2}
2^{10} | 1024 | 2^5 \cdot 2^5
\binom{5}{2} | 10 | \binom52 | \dbinom{5}{2}
90^\circ | \frac{\pi}{2} | 90 | 90°
3+4i | 4i+3 | 3 + 4 i
\frac13 | 0.\overline{3} | \frac{1}{3}
1500 | 1.5e3 | 1.5 \times 10^3 | 1{,}500 | 1,500
\text{Evelyn} | Evelyn | evelyn | \textbf{Evelyn}
\text{(C)} | C | (C)
1121_4 | 1121_{4}
32\text{ square cm} | 32 \text{ cm}^2 | 32 | 32 cm²
p - q | p-q | -q+p
\frac{\sqrt{3}}{2} | \sqrt{3}/2 | \frac{\sqrt3}{2} | \sqrt{\frac{3}{4}}
\ln 8 | 3\ln 2 | \ln(8)
n! | n \cdot (n-1)! | n!
|x-1| | |1-x|
\emptyset | \{\} | \varnothing
"""
#: A reference, and answers that are wrong.
DIFFERENT = r"""
5 | 5 m^2 x | -5 | 5! | 5x | 5/1000 | 5^2 | \sqrt{5} | 5 thousand | 5 dozen | 5,5 | (5,5)
5 | 5e1 | 5+i
5 | five | 5 or 6 | not 5 | \ne 5 | < 5 | 5:1 | 5:00 | 5_2 | 5 and 5 | 5% of x | 5.0001 | 4.99999999
5 | V | 5 \cdot x | 5-5 | 5k | 5 bn | 5 thirds | 5 point two | 5 is wrong | 5 over seven | 5e | 5=4
-3 | 3 | --3 | - -3 | 3- | -3i | -3^3 | 0-3x
1/2 | 2/1 | 1 2 | 12 | 1\2 | 0.05 | -1/2 | 1/20 | 1.2 | 1:2 | 1/2x | 0.5\%
1/2 | 0.49999999999 | \frac12 i
2.5 | 2,5 | 25 | 2 5 | -2.5 | 2.50001 | 2/5
1000 | 1.000 | 100 | 10^2 | 10^{-3} | 1e2 | 1,00 | 1,0000 | 1000 k | 1,000,000
\frac{\sqrt{3}}{2} | \frac{3}{2} | \sqrt{\frac{3}{2}} | 0.866 | \sqrt{3} | 2 | \frac{2}{\sqrt{3}}
x^2+1 | x^2-1 | x2+1 | x^2+1=0 | x+1 | X^2+1 | y^2+1 | x^{2+1} | (x+1)^2 | 2x+1 | x^2 1 | x_2+1
2x+3 | 2x-3 | 3 | 2(x+3) | 2x3 | 3x+2 | 2y+3 | 2X+3 | 2^x+3 | (2x,3) | 2x,3 | 2x+3=0
(1,2) | (2,1) | 1,2 | \{1,2\} | [1,2] | (1,2] | 1.2 | 12 | (1,2,3) | (-1,2) | 2 | \frac12 | (1;3)
[0,1] | (0,1) | [0,1) | \{0,1\} | 0,1 | 0.1 | [1,0] | 0 < x < 1 | 0 < x \le 1 | x \le 1
[0,1] | 0 \ge x \ge 1
(-\infty,3] | (-\infty,3) | [3,\infty) | x < 3 | x \ge 3 | 3 | (\infty,3] | x \ne 3 | x = 3
\{1,2,3\} | 1,2 | 6 | 123 | \{1,2,3,4\} | (1,2,3) | [1,3] | 1,2,-3 | 1+2+3 | \{1,2,2\} | \{1,1,2,3\}
x=5 | x=-5 | y=5 | x>5 | x \ge 5 | x=5,6 | x=5y | x \ne 5 | x = 5 or 6
y=2x+3 | y=3 | y=2x-3 | y>2x+3 | x=2y+3 | 3
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \begin{pmatrix}1&3\\2&4\end{pmatrix} | (1,2,3,4) | 4 | -2
50\% | 0.05 | 5\% | 500\% | -50\% | 5000 | 51\%
90^\circ | 90 radians | 9^\circ | 90^\circ C | \frac{\pi}{3} | \pi | 90^2
5\text{ km} | 5 m | 5 miles | 5 km/h | 5 km^2 | 50 km | 500 m | 5 kg | -5 km | 5 hours | 5 square km
\$5 | €5 | 5 cents | £5 | \$50 | 5 yen | \$5 million | -\$5
3 hours | 3 minutes | 30 hours | 3 hours 5 minutes | 180 seconds
12 \text{ m}^2 | 12 m | 12 m^3 | 12 cm^2 | 12 m/s | 144 m
3+4i | 3-4i | 4+3i | 7 | 5 | 3+4 | 3+4j | (3,4) | 4i | 3
2^{10} | 2^{11} | 210 | 20 | 1023 | 2^{-10} | 10
n! | n | (n-1)! | n^n | N! | n+1
\log 2 | \ln 2 | \log 20 | 2 | 2\log 2
\sin x | \cos x | \sin^2 x | \sin 2x | \sin(-x) | \sin y
\pi | 3.14 | 3.14159265358979 | 22/7 | \pi^2 | 2\pi | -\pi
0 | 10^{-9} | 10^{-30} | \frac{1}{20!} | 0.0000001 | \frac{1}{10^{20}} | \emptyset | \infty
2^{-30} | 0 | 2^{-31}
e^{-20} | e^{-21} | 0
2^{100} | 2^{100}-1 | 2^{100}+1
\infty | -\infty | 0 | 10^{100}
\emptyset | 0 | \{0\} | \{\emptyset\}
Evelyn | Evelina | Evelyn and Bob | not Evelyn | Evelyn? | nylevE
cat | act | tac
x+y | x-y | xy | x/y | x+z | X+Y | x+2y | -(x+y)
a>b | a<b | a=b | a \ge b | a>c | b>a
1121_4 | 1121 | 1121_5 | 11214
7:30 | 7 | 730 | 19:30 | 7:30 PM
2 PM | 2 AM | 14 | 3 PM
5 apples | 5 pears | 4 apples | 50 apples
a_1 | a_2 | a | A_1 | 1
f(x)=x^2 | f(x)=x^3 | f(x)=-x^2 | f(x)=2x | f(x) > x^2
2\sqrt{3} | \sqrt{6} | 3\sqrt{2} | 23 | 2 + \sqrt 3 | \sqrt{23} | 3.464
\pm 2 | 2 | -2 | 4 | 0 | \pm 3 | (2,-2)
1.5 \times 10^3 | 1.5 \times 10^{-3} | 15 | 1.5 | 1.53
\frac{1}{3} | 0.333 | 0.3333333333333333 | 0.3 | 3 | 1/3\%
Yes | No | yesterday | Y
\frac{a}{b} | \frac{b}{a} | ab | \frac{A}{b}
"""


def pairs(table: str) -> list[tuple[str, str]]:
    """Each reference of a table with each of its answers."""
    found = []
    for line in table.strip().splitlines():
        reference, *answers = (part.strip() for part in line.split(" | "))
        found += [(reference, answer) for answer in answers]
    return found


@pytest.mark.parametrize("line", EQUAL.strip().splitlines())
def test_one_value_in_many_ways_is_one_value(line: str) -> None:
    ways = [way.strip() for way in line.split(" | ")]
    for answer in ways[1:]:
        assert equal_by_proof(answer, ways[0]), answer


@pytest.mark.parametrize("line", DIFFERENT.strip().splitlines())
@pytest.mark.promise("strangers cannot fool a score")
def test_a_near_miss_is_not_equal(line: str) -> None:
    for reference, answer in pairs(line):
        given = final_answer(rf"It is \boxed{{{answer}}}.")
        assert given == answer
        assert not equal_by_proof(answer, reference), answer


def test_there_are_hundreds_of_near_misses() -> None:
    assert len(set(pairs(DIFFERENT))) > 300


def test_numbers_words_and_shapes_need_no_proof() -> None:
    plain = ("7", "7.0", "1/2", "5 km", "Paris", "(1,2)", "{", r"\{1,2\}", "x = 5", "[0,1)", "")
    for one, other in itertools.product(plain, repeat=2):
        settled(one, other)


def test_other_formulas_need_one() -> None:
    with pytest.raises(NeedsProof):
        settled("x+1", "1+x")
    assert settled("x + 1", "x+1") is True


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("27", "27"),
        ("3 + 4 = 7", "7"),
        ("So 3 + 4 = 7 of them", "7"),
        ("first 12, then\n#### 1,234", "1,234"),
        (r"so \boxed{\frac{1}{2}} it is, 3", r"\frac{1}{2}"),
        (r"\boxed{1} and \boxed{2}", "1; 2"),
        (r"\boxed{\frac{1}{2}} or \boxed{0.5}", "0.5"),
        (r"so $x = \boxed{1}$ or $x = \boxed{2}$", "x = 1 or x = 2"),
        (r"\boxed{1} is the first. \boxed{2}", "2"),
        (r"\boxed{\boxed{1}\boxed{2}}", r"\boxed{1}\boxed{2}"),
        (r"\boxed{1", r"\boxed{1"),
        (r"\boxed{1} ... no", None),
        (r"It is \boxed{1}. No, wait.", None),
        (r"It is \boxed{1}. No other value fits.", "1"),
        (r"\boxed{8} and \boxed{7", "8"),
        (r"\fbox{7}", "7"),
        ("I see.\n<answer>7</answer>", "7"),
        ("the answer is -3.5.", "-3.5"),
        ("It is 2.", "2."),
        ("So it is 2", "2"),
        ("so 4", "4"),
        ("The answer is **42**.", "42"),
        ("Therefore the answer is *42*.", "42"),
        ("The answer is `42`.", "42"),
        ('The answer is "42".', "42"),
        ("So she has **42 apples**.", "42"),
        ("2**3", "2**3"),
        ("- \\boxed{7}", "7"),
        ("the answer - \\boxed{7}.", "7"),
        ("**\\boxed{7}** cm", "7"),
        ("-\\boxed{7}", "-(7)"),
        ("x \\neq \\boxed{7}", "\\neq (7)"),
        ("The answer is 18 because 9*2=18.", "18"),
        ("She makes 18 dollars.", "18 dollars"),
        ("Hence\n$$\\frac{7}{2}$$", r"\frac{7}{2}"),
        ("It could be 5 or 6 or 7", "It could be 5 or 6 or 7"),
        ("no number", "no number"),
        ("no\nnumber", None),
        ("", None),
    ],
)
def test_the_final_answer_of_a_text(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("reference", "taken"),
    [
        (r"\frac{1}{2}", r"\frac{1}{2}"),
        (" 2x+3 ", "2x+3"),
        (r"It is \boxed{3}", "3"),
        ("2 + 3 = 5\n#### 5", "5"),
        ("p - q", "p - q"),
    ],
)
def test_a_reference_is_whole_unless_it_marks_its_answer(reference: str, taken: str) -> None:
    assert whole_reference(reference) == taken


@pytest.mark.parametrize(
    "answer",
    [
        *(r"-\boxed{7}", r"2\boxed{7}", r"\boxed{7}^2", r"\boxed{7}/2", r"1/\boxed{7}"),
        *(r"\sqrt{\boxed{7}}", r"\boxed{7}\pi", r"\boxed{7} \times 10^3", r"x \neq \boxed{7}"),
        *(r"\boxed{7}\%", r"\boxed{7}%", r"\boxed{7} / 8", r"\boxed{7} + 1", r"0.\boxed{7}"),
        *(r"\frac{1}{\boxed{7}}", r"\frac{\boxed{7}}{2}", r"\log \boxed{7}", r"x_{\boxed{7}}"),
        *(r"10^{\boxed{7}}", r"\boxed{7} million", r"\boxed{7} \text{ dozen}"),
        *(r"x > \boxed{7}", r"\boxed{7}k", r"3 - \boxed{7}", r"3+\boxed{7}"),
    ],
)
def test_a_box_within_a_formula_is_not_the_answer(answer: str) -> None:
    final = final_answer(answer)
    assert final is not None
    assert not equal_by_proof(final, "7")


@pytest.mark.parametrize(
    "answer",
    [
        *("The answer is minus 3", "The answer is negative $3$", "It is double 3", "at least 3"),
        *("The answer is the cube of 3", "the reciprocal of 3", "It is less than 3", "never 3"),
        *("The answer cannot be 3", "It can't be 3", "anything but 3", "other than 3", "twice 3"),
        *(
            "It is far from 3",
            "3 more than x",
            "The answer is 3 and a half",
            "the square root of 3",
        ),
    ],
)
def test_words_that_change_or_deny_a_number_are_no_answer(answer: str) -> None:
    final = final_answer(answer)
    assert final is None or not equal_by_proof(final, "3")


@pytest.mark.parametrize(
    "answer",
    [
        *(r"\boxed{7}, which is wrong", r"\boxed{7} is incorrect", r"not \boxed{7}"),
        *(r"The answer isn't $\boxed{7}$", "<answer>7</answer> is wrong", r"\boxed{7}. No, wait."),
        *("The answer is 8, which exceeds 7", "The answer is 8 (see step 7)", "8 instead of 7"),
        "The answer is 8. Previously, I thought it was 7",
        "The answer is eight. See equation 7",
    ],
)
def test_a_number_that_is_denied_or_of_other_things_is_no_answer(answer: str) -> None:
    final = final_answer(answer)
    assert final is None or not equal_by_proof(final, "7")


def test_words_behind_an_answer_do_not_deny_it() -> None:
    assert final_answer(r"It is \boxed{7}, which is what we wanted.") == "7"
    assert final_answer("The answer is 7 because 3 + 4 = 7.") == "7"
    assert final_answer(r"\boxed{90}^\circ") == r"(90)^\circ"
    assert equal_by_proof(r"(90)^\circ", r"90^\circ")
