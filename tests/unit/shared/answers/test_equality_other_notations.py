"""Plain text and Unicode in place of LaTeX: the same value is right, its neighbours are wrong.

Each line has a reference, right answers, and behind "||" wrong answers.
"""

import contextlib
import time

import pytest

from assay_shared.answers.choices.choice import chosen_letter
from assay_shared.answers.choices.options import ChoiceOptions
from assay_shared.answers.equality import NeedsProof, equal_by_proof, settled
from assay_shared.answers.extraction import final_answer
from assay_shared.answers.words import same_words

PREFIXES = r"""
5 \text{ mg} | 5 mg | 0.005 g | 5 milligrams || 5 Mg | 5 MG | 5 megagrams | 5 kg
5 Mg | 5 tonnes | 5 megagrams || 5 mg | 5 MG
5 \text{ ms} | 5 ms | 5 milliseconds || 5 Ms | 5 MS
5 Pa | 5 pascals || 5 pA | 5 PA | 5 pa
5 mm | 0.5 cm || 5 Mm | 5 MM
5 mL | 5 ml | 5 cc || 5 ML | 5 Ml
5 ha | 5 Ha | 5 HA | 5 hectares || 5 hA
5 MW | 5000 kW | 5 megawatts | 5\text{ MW} || 5 mW | 5 mw | 5 milliwatts
5 mHz | 0.005 Hz || 5 MHz | 5 MHZ | 5 mhz
5 MB | 5 megabytes || 5 Mb | 5 mb | 5 GB | 5 MB/s | 5000 kB
5 Mb/s | 5 megabits per second || 5 MB/s
5 kΩ | 5 k\Omega | 5000 ohms | 5\text{ k}\Omega || 5 MΩ | 5 mΩ
5 Nm | 5 N m | 5 newton meters || 5 nm | 5 NM
5 kN | 5000 N || 5 kn | 5 knots
5 cal || 5 Cal | 5 kcal
5 MeV | 5000 keV || 5 meV
5 mbar || 5 Mbar
5 mpc || 5 Mpc
5 km | 5 KM | 5 Km
5 kg | 5 Kg | 5 KG
5 hours | 5 Hours | 5 HRS | 5 Hr
5 ft | 5 FT | 5 Feet
5\text{ m} | 5 m | 5 || 5 M
5\text{ s} | 5 || 5 S
"""
COORDINATES = r"""
(1,2) | y = 2, x = 1 | x = 1, y = 2 | y=2 and x=1 | (y,x)=(2,1) || y = 1, x = 2 | (y,x)=(1,2) | 1,2
(1,2,3) | z = 3, y = 2, x = 1 || z = 1, y = 2, x = 3 | x=1, y=3, z=2
x=1, y=2 | y = 2, x = 1 | (1,2) || (2,1) | y = 1, x = 2
(2,13) | (a,b) = (2,13) | a=2, b=13 || (a,b) = (13,2) | b = 13, a = 2
(1,2) || b = 2, a = 1 | q = 1, p = 2
(1,2) | x = \boxed{1}, y = \boxed{2} || x = \boxed{2}, y = \boxed{1} | \boxed{1} and \boxed{2}
"""
SETS = r"""
\{1,2\} | {1,2} | {2, 1} | ｛1，2｝ || {1,3} | {1,2,2} | {{1,2}} | {1} | (1,2) | {12} | {1,-2} | {1},{2,2}
\{\{1\},\{2\}\} | {{1},{2}} | {{2},{1}} || {1,2} | {{1,2}} | {{1},2}
\{1,2,3\} | {1,2} ∪ {3} | {1,2} U {3} || {1,2} U {4} | {1,2} ∩ {3}
(3,\infty) | {x|x > 3} | {x : x > 3} | {x∈ℝ|x > 3} || {x|x >= 3} | {x|y > 3} | {x|x < 3} | {3}
5 | {5} | x = {5} || {5,5} | {{5}} | {6}
\emptyset | {} || {0} | {{}} | |x| < 0
[3,\infty) | [3, infinity) | [3, inf) | [3, +inf) | [3, oo) | x ⩾ 3 || (3, inf) | [3, -inf) | [3, info) | x ⩽ 3
\infty | inf | infinity | +inf | Infinity || -inf | infimum | inf S | 0
(-\infty,\infty) | (-inf, inf) | (-oo, oo) || (inf, -inf) | (-inf, 0)
(0,1)\cup(2,3) | (0,1) U (2,3) | (2,3)U(0,1) | (0,1) union (2,3) || (0,1) U (2,4) | [0,1) U (2,3) | (0,1)(2,3)
f(x)U(x) || f(x) | f(x) \cup (x)
(-\infty,-3)\cup(3,\infty) | |x|>3 | 3 < |x| | \lvert x \rvert > 3 || |x|<3 | |x|\ge 3 | |x|>-3 | |x|>4 | |x+1|>3
(-\infty,-3)\cup(3,\infty) | \mathbb{R}\setminus[-3,3] | ℝ∖[-3,3] | \mathbb{R} - [-3,3] || \mathbb{R}\setminus(-3,3)
(-\infty,-3)\cup(3,\infty) || \mathbb{R}\setminus[-3,4] | [-3,3]\setminus\mathbb{R} | \mathbb{Z}\setminus[-3,3]
(-3,3) | |x|<3 || |x|\le 3 | |x|>3
[0,2)\cup(2,5] | [0,5]\setminus\{2\} || [0,5]\setminus\{3\} | [0,5)\setminus\{2\}
(-\infty,1)\cup(4,\infty) | \mathbb{R}\setminus([1,2]\cup[2,4]) || \mathbb{R}\setminus[1,2]\cup[2,4]
\begin{pmatrix}1&2\\3&4\end{pmatrix} | [[1,2],[3,4]] || [[1,3],[2,4]] | [1,2],[3,4] | [[1,2,3,4]] | [[1,2],[3]]
\begin{pmatrix}1\\2\end{pmatrix} | [[1],[2]] || [[1,2]] | [1,2] | [[2],[1]]
[1,2] || [[1,2]] | [[1],[2]]
"""  # noqa: E501  # a line of a table
FORMULAS = r"""
\sqrt{12} | √12 | √(12) | 2√3 | √ 12 || √1 | √2 | √120 | √1.2 | √12! | 12√ | √-12 | √12x
2 | ∛8 | ³√8 | ∜16 || ∛9 | ²√8 | ∜8 | 3√8
x^3 \sqrt{8} | x³√8 || x∛8
x^2 | x**2 | x ** 2 || x*2 | x**3 | x**-2 | x**2**1 | 2**x | x**22 | x**2.5
8 | 2**3 | 2 ** 3 || 2*3 | 3**2 | 2**4 | 2**-3 | 2**3**1 | 23 | -2**3
2345 || 2 ** 345
512 || 2**3**3
x^{n+1} | x**(n+1) || x**n+1 | x**(n-1)
x^{10} | x**10 || x**1*0
\frac{\pi^2}{6} | pi**2/6 | π²/6 || pi**2*6 | pi**6/2 | (pi/6)**2
-4 | -2**2 || (-2)**2
2^n | 2ⁿ || 2n | 2ᵐ | n² | 2ⁿ⁺¹
a_{n+1} | aₙ₊₁ || aₙ+1 | aₙ₋₁
101_2 | 101₂ || 101₃ | 101 | 1012 | 101² | 100₂
\frac{1}{2} | 1⁄2 | ¹⁄₂ | １／２ | ０．5 || 1⁄3 | 2⁄1 | ¹⁄₃ | １／３
2\frac{1}{2} | 2 1⁄2 | 2 and 1/2 | 2 and \frac{1}{2} || 2 and 1/3 | 2, 1/2 | 2 or 1/2 | 2 and 5/2 | 3 and 1/2
2\frac{1}{3} \text{ cups} | 2 and 1/3 cups || 2 and 1/3 liters
2, \frac{1}{3} | 2 and 1/3 || 7/3 | 2 and 1/4
x - 2 || x**-2
x^{-2} | x**-2 | x**(-2) | x⁻² || x**2 | x-2 | x⁻³
x = -3 | x = negative 3 || x = 3
-3 | －3 | －３ | negative 3 | minus 3 | ‑3 || 3 | －2 | negative -3 | not negative 3 | negative 30 | minus 3x
12 | １２ | 12 ✅ | ✔️ 12 | 12🎉 || 12 ❌ | 12 ✗ | 13 ✅ | ✅ | 12 ✅ 13
\pm 3 | +/-3 | +/- 3 | plus or minus 3 || 3 | -3 | +/-2
𝑥^2 | x² | 𝐱^𝟐 || 𝑦²
30^\circ | \angle A = 30^\circ | m∠ABC = 30° || \angle A = 60^\circ | 2\angle A = 30^\circ | \angle A > 30^\circ
\angle A = 30^\circ | A = 30° || \angle B = 30^\circ
1000 | １，０００ || １，０００，０００
"""  # noqa: E501  # a line of a table
TEXTS = r"""
\$5.50 | US$5.50 | US\$5.50 | USD 5.50 | 5.50 USD | 5.50 US dollars || US$5.05 | C$5.50 | HK$5.50 | EUR 5.50
\$5.50 || US$5.50 million | 5.50 AUD
€5 | EUR 5 | 5 EUR || USD 5 | US$5 | GBP 5
Yes | Yes! | YES! || No! | Yes? | Yes, but no
\text{No solution} | No solution! || solution! | One solution!
ab! || ab | Ab!
6 \text{ ft } 2 \text{ in} | 6 ft. 2 in. | 6 ft., 2 in. || 6 ft. 3 in. | 2 ft. 6 in. | 6 ft. 14 in.
\text{March 3, 2020} | Monday, March 3rd, 2020 | Tue, March 3, 2020 | the 3rd of March 2020 || March 4th, 2020
\text{March 3, 2020} || Monday | Tuesday, 2020 | April 3rd, 2020 | Monday, Tuesday, March 3, 2020
\text{Tuesday, March 3, 2020} | March 3rd, 2020 || Monday, March 3, 2020 | Tuesday, March 10, 2020
\text{(B)} | B | B) | b | Option B | Choice B | The correct option is (B). || A | Option A | (A) or (B) | not B | AB
B || b | Option C
1, 2 | \boxed{1} and \boxed{2} | $\boxed{2}$, $\boxed{1}$ || \boxed{1} and \boxed{3} | \boxed{2}
1, 2 | x = \boxed{1} or x = \boxed{2} || x = \boxed{1}, \boxed{2} and \boxed{3}
2 | \boxed{2} and \boxed{2} || \boxed{1} and \boxed{2} | x = \boxed{1} or x = \boxed{2}
7/3 || \boxed{2} and \boxed{1/3}
20\% | 20% | 20 | 0.2 | 20 percent || 2 | 0.02 | 200\% | 0.20\% | 20°
"""  # noqa: E501  # a line of a table


def _score(text: str, reference: str) -> bool:
    given = final_answer(text)
    return text == reference or (given is not None and equal_by_proof(given, reference))


@pytest.mark.parametrize(
    "line",
    [
        line
        for table in (PREFIXES, COORDINATES, SETS, FORMULAS, TEXTS)
        for line in table.split("\n")
        if line
    ],
)
def test_a_value_in_another_notation_is_right_and_its_neighbours_are_wrong(line: str) -> None:
    right, _, wrong = line.partition("||") if "|| " in line else (line, "", "")
    reference, *equal = (part.strip() for part in right.split(" | "))
    other = [part.strip() for part in wrong.split(" | ") if part.strip()]
    for answer in (*equal, *other):
        for text in (answer, rf"So it is $\boxed{{{answer}}}$."):
            is_right = answer in equal
            assert _score(text, reference) is is_right or r"\boxed" in answer != text, text


def test_another_case_of_a_unit_is_left_open_by_words_and_refused_as_a_number() -> None:
    for one, other in (("5 mg", "5 Mg"), ("5 mm", "5 Mm"), ("5 mW", "5 MW")):
        assert settled(one, other) is False
    assert settled("5 Kg", "5 kg") is True
    assert not same_words("5 mW", "5 MW")


def test_a_number_before_an_ambiguous_unit_is_not_the_number() -> None:
    for answer in ("5 MG", "It weighs 5 MG.", "It weighs 5 MG, I think.", "The answer is 5 MG"):
        for reference in ("5 mg", "5 Mg", r"5 \text{ g}", "5"):
            assert not _score(answer, reference)
    assert final_answer("It weighs 5 KG.") == "5 KG"


@pytest.mark.parametrize(
    "text",
    ["A - Paris", "A — Paris", "A -- Paris", r"\boxed{A – Paris}", "（Ａ）", "答案：Ａ", "Ａ．"],
)
def test_a_dash_and_letters_of_full_width_name_an_option(text: str) -> None:
    assert chosen_letter(text, ChoiceOptions(("Paris", "Rome", "Oslo"))) == "A"


@pytest.mark.parametrize(
    "text", ["A - Rome", "B - Paris", "A - Paris or Rome", "（Ａ）（Ｂ）", "A -5"]
)
def test_a_dash_before_another_text_names_none(text: str) -> None:
    assert chosen_letter(text, ChoiceOptions(("Paris", "Rome", "5"))) is None


@pytest.mark.parametrize(
    "unit",
    ["x**((a)", "**(", "√1", "{{1},", "[1,2],", "(1,2)U", "|x|>3 or ", "\\boxed{1} and ", "5 MG "],
)
def test_notations_without_an_end_take_no_time(unit: str) -> None:
    started = time.process_time()
    for size in (1990, 16_000):
        text = unit * (size // len(unit))
        final_answer(text)
        with contextlib.suppress(NeedsProof):
            settled(text, "(1,2)")
    assert time.process_time() - started < 1.0
