"""Models' notations of a value, and near misses of each."""

import pytest

from assay_shared.answers.equality import equal_by_proof
from assay_shared.answers.extraction import Extract, extract, final_answer
from assay_shared.answers.squad_words import normalize_answer
from tests.unit.shared.answers.test_equality import pairs

#: A reference, and answers that are right.
RIGHT = r"""
\frac34 \text{ cup} | 3/4 | 0.75 | \dfrac{3}{4}\text{ cups} | 3/4 cup | \frac34\,\text{cup}
24\pi \text{ square inches} | 24\pi | 24\pi\text{ in}^2 | 24π sq in | 24\pi\ \mathrm{in}^{2}
24\pi | 24\pi \text{ square inches} | 24\pi \text{ cm}^2 | 24 \pi\text{ units}
2\sqrt{3} \text{ cm} | 2\sqrt3 | 2\sqrt{3}\mathrm{~cm} | \sqrt{12} \text{ cm}
2\sqrt{3} \text{ cm} | 2\sqrt{3}\,\mathrm{cm} | 20\sqrt{3} \text{ mm}
\frac{\sqrt{3}}{2} \text{ m} | \frac{\sqrt3}{2}\ \text{meters} | 50\sqrt3 \text{ cm}
\frac{\pi}{2} \text{ radians} | 90^\circ | \frac{\pi}{2} | \frac12\pi\text{ rad}
90^\circ | \frac{\pi}{2} \text{ radians}
20\sqrt3 \text{ degrees} | 20\sqrt3
100^\circ C | 100^\circ\text{C} | 100 ^{\circ} \mathrm{C} | 100°C | 100 degrees Celsius | 100
5\text{ lbs} | 5 lb | 5 pounds | 80 oz
10 \frac{\text{m}}{\text{s}} | 10 m/s | 10 meters per second | 10\ \mathrm{m\,s^{-1}} | 36 km/h | 10
9.8 \text{ m/s}^2 | 9.8 \frac{m}{s^2} | 9.8\, \frac{\text{m}}{\text{s}^2}
1 hour 30 minutes | 90 minutes | 1.5 hours | 1 h 30 min | 1 hour and 30 minutes
1 hour 30 minutes | 1\text{ h }30\text{ min}
66 \text{ inches} | 5 feet 6 inches | 5 ft 6 in | 5.5 feet
\$1.25 | 1 dollar and 25 cents | 125 cents
5 | \mathbf{5} | \boldsymbol{5} | \bm{5} | \mathrm{5} | \displaystyle 5 | \left. 5 \right. | \, 5 \,
5 | {\bf 5} | \color{red}{5} | \text{5} | \mathbf{5}\,\text{cm} | \large 5 | \underline{5} | {5}
\frac{1}{2} | \boldsymbol{\frac{1}{2}} | {1 \over 2} | \displaystyle\frac12 | \nicefrac{1}{2}
(2,-2) | \text{(2, -2)} | \mathrm{(2,-2)} | \boldsymbol{\left(2,-2\right)}
5 \text{ units}^2 | 5 | 5 square units | 5\text{ sq. units}
5 \mu\text{m} | 5 μm | 5 micrometers | 0.005\text{ mm}
20 \, \Omega | 20 ohms | 20\ \text{ohm} | 20
2:30 \text{ p.m.} | 2:30 PM | 2:30 p.m. | 2:30\text{ pm}
x = 1,600 | 1600 | x = 1{,}600
\infty | +\infty | ∞ | \text{infinity}
(3, \infty) | (3, +\infty) | ]3,\infty[ | \{x \mid x>3\} | x \in (3,\infty)
(3, \infty) | \{y \in \mathbb{R} : y > 3\}
\mathbb{R} | (-\infty,\infty) | x \in \mathbb{R} | ℝ | \text{all real numbers}
\mathbb{R}\setminus\{0\} | (-\infty,0)\cup(0,\infty) | x \ne 0 | \mathbb{R} - \{0\}
\mathbb{R}\setminus\{0\} | \{x \mid x \neq 0\}
(-\infty,1)\cup(1,2)\cup(2,\infty) | \mathbb{R}\setminus\{2,1\} | \mathbb{R} \backslash \{1, 2\}
\emptyset | \varnothing | \{\} | \text{the empty set}
2\pi | 2pi | 2 pi
\pi | pi | π
3 | \log_2 8 | \log_{2} 8 | \lfloor 3.5 \rfloor | \lceil \sqrt{5} \rceil | ⌊3.5⌋ | \lfloor\pi\rfloor
y=2x+1 | 2x-y+1=0 | 4x - 2y + 2 = 0 | 2x+1=y | y - 1 = 2x | x = \frac{y-1}{2}
x^2+y^2=4 | \frac{x^2}{4}+\frac{y^2}{4}=1 | x^2 = 4 - y^2
\frac13 | 0.\dot{3} | 0.\overline{3} | 0.(3) | 0.333\ldots | 0.3333...
\frac{1}{7} | 0.\dot{1}4285\dot{7} | 0.\overline{142857}
\arctan 2 | \tan^{-1} 2 | \tan^{-1}(2) | arctan(2) | \operatorname{arctan} 2
\frac{\sqrt{2}}{2} | \sin 45^\circ | \cos\frac{\pi}{4}
p \vee \neg q | p ∨ ¬q
p \vee ~q | p ∨ ~q
p \wedge q | p \land q | p ∧ q
1010_{\text{two}} | 1010_2 | 1010_{2} | 1010_{(2)} | 1010_{\text{base 2}}
55 | \sum_{k=1}^{10} k | \sum\limits_{i=1}^{10} i
120 | \prod_{k=1}^{5} k | \sum_{k=1}^{5} 24
10 | {5 \choose 2} | {}_5C_2
a \equiv 3 \pmod 7 | a \equiv 3 \pmod{7} | a ≡ 3 \ (\text{mod } 7)
\begin{pmatrix}1 & 2\\3 & 4\end{pmatrix} | \left[\begin{array}{cc}1 & 2\\3 & 4\end{array}\right]
\begin{pmatrix}1 & 2\\3 & 4\end{pmatrix} | \begin{bmatrix} 1 & 2 \\[4pt] 3 & 4 \end{bmatrix}
(1,2) | (x,y)=(1,2)
\text{August} | x = \text{August} | August
TCP/IP | \text{TCP/IP}
"""
#: A reference, and answers that are wrong.
WRONG = r"""
\frac34 \text{ cup} | \frac34 \text{ teaspoon} | \frac43 | 3/4 liters | 3.4 | \frac34 x
24\pi \text{ square inches} | 24\pi \text{ inches} | 24\pi \text{ square feet} | 24 | 24\pi x
24\pi \text{ square inches} | 24\pi^2
24\pi | 24\pi m | 24\pi r | 24\pi \text{ thirds} | 24\pi \text{ or } 25 | 25\pi\text{ cm}
2\sqrt{3} \text{ cm} | 2\sqrt3 \text{ m} | 2\sqrt{3}\text{ cm}^2 | 2\sqrt{3}\text{ kg}
2\sqrt{3} \text{ cm} | 20\sqrt{3} cm
\frac{\pi}{2} \text{ radians} | 45^\circ | \frac{\pi}{2} \text{ degrees} | \frac{\pi}{3}
90^\circ | \sqrt{8100}\text{ radians} | \pi \text{ radians}
20\sqrt3 \text{ degrees} | 20\sqrt3 \text{ radians} | 20\sqrt3 \text{ cm}
100^\circ C | 100^\circ F | 100 K | 10^\circ C | 100^\circ | 100 degrees
5\text{ lbs} | 5 kg | 5 oz | £5 | 50 lb
10 \frac{\text{m}}{\text{s}} | 10 \frac{s}{m} | 10 s/m | 10 m | 10 km/h | 10 \frac{m}{s^2}
10 \frac{\text{m}}{\text{s}} | \frac{10}{s}
9.8 \text{ m/s}^2 | 9.8 m/s | 9.8 \frac{m^2}{s^2} | 98 \text{ m/s}^2
1 hour 30 minutes | 1 hour | 30 minutes | 130 minutes | 1.3 hours | 90 | 31 | 1 hour 90 minutes
1 hour 30 minutes | 1 minute 30 hours | 1 hour -30 minutes | 1 hour or 30 minutes | 1 hour 30
90 | 1 hour 30 minutes | 1.5
66 \text{ inches} | 5 feet 6 pounds | 6 feet 5 inches | 5 feet, 6 feet | 6 inches
\$1.25 | 1 dollar and 25 euros | 25 cents | 1 dollar
5 | \mathbf{6} | -\mathbf{5} | \mathbf{5}x | 5\mathbf{5} | {5}5 | \sqrt{5} | \left. 5 \right.1
5 | x_{\mathbf{5}}
\frac{1}{2} | {2 \over 1} | 1 \over 2x | \boldsymbol{-\frac{1}{2}} | \frac{\mathbf{1}}{3}
\begin{pmatrix}1 & 2\\3 & 4\end{pmatrix} | \begin{pmatrix}1 & 2\\[3] & 4\end{pmatrix}
(2,-2) | \text{(2, 2)} | \text{2, -2} | \mathrm{(-2,2)}
5 \text{ units}^2 | 5 units | 5 cubic units | 5 cm
5 \mu\text{m} | 5 m | 5 mm | 5\mu s
20 \, \Omega | 20 volts | 2 ohms
2:30 \text{ p.m.} | 2:30 AM | 2:30 a.m. | 3:30 PM
x = 1,600 | 1 | 600 | 1,601 | x = 1, 600
\infty | -\infty | +x | \infty + 1 | \text{finite}
(3, \infty) | [3,\infty) | \{x \mid x \ge 3\} | x < 3 | \{x \in \mathbb{Z} \mid x>3\}
(3, \infty) | \{x \mid y>3\} | ]3,\infty] | x >= 3
\mathbb{R} | \mathbb{Z} | (0,\infty) | \mathbb{R}^2 | \mathbb{R}\setminus\{0\} | R
\mathbb{R}\setminus\{0\} | \mathbb{R} | \{0\} | x=0 | \mathbb{R}\setminus\{1\}
\mathbb{R}\setminus\{0\} | \mathbb{R}\setminus\{0,1\} | \mathbb{Z}\setminus\{0\} | 0
\mathbb{R}\setminus\{0\} | (-\infty,0]\cup(0,\infty) | \mathbb{R}\cup\{0\}
(-\infty,1)\cup(1,2)\cup(2,\infty) | \mathbb{R}\setminus\{1\} | \mathbb{R}\setminus\{1,2,3\}
(-\infty,1)\cup(1,2)\cup(2,\infty) | x \ne 1
2\pi | 2p i | 2 pie | \pi
3 | \log_2 9 | \log_3 8 | \lfloor 2.5 \rfloor | \lceil 3.5 \rceil | \lfloor 3.5 | \log_2 8x
y=2x+1 | 2x+y+1=0 | 2x-y-1=0 | (y-2x-1)^2=0 | x(y-2x-1)=0 | 4x-2y+1=0 | 2x-y+1 | y>2x+1 | 0=0
x^2+y^2=4 | x^2+y^2=2 | x^2-y^2=4 | (x^2+y^2-4)^2=0 | x^2+y^2+4=0 | 4
\frac13 | 0.3 | 0.333 | 0.\dot{4} | 0.\overline{34} | 0.(4) | 0.3\dot{4} | 0.33...4 | 0.3...
\frac13 | 3.\dot{3}
\frac{1}{7} | 0.\dot{1}4285\dot{6} | 0.\dot{1}\dot{7} | 0.142857
\arctan 2 | \tan 2 | \frac{1}{\tan 2} | \cot 2 | \tan^{-2} 2 | \arctan 3 | \arcsin 2 | (\tan 2)^{-1}
\frac{\sqrt{2}}{2} | \sin 45 | \cos 60^\circ | \sin^{-1} 45^\circ
p \vee \neg q | p \vee q | \neg p \vee q
p \vee ~q | p \vee q | p ∨ q
p \wedge q | p \lor q | p q | p \wedge r | q
1010_{\text{two}} | 1010 | 1010_3 | 1011_2 | 1010_{10} | 1010_{\text{three}} | 10 | 12_8
55 | \sum_{k=1}^{9} k | \sum_{k=2}^{10} k | \sum_{k=1}^{10} x | \sum_{k=1}^{10} | \sum_{k=1}^{n} k
55 | \sum_{k=1}^{10^9} k
120 | \prod_{k=1}^{6} k | \prod_{k=0}^{5} k | \sum_{k=1}^{5} k
10 | {5 \choose 1} | {}_5P_2 | x_5C_2 | {2 \choose 5}
a \equiv 3 \pmod 7 | a \equiv 3 \pmod 8 | a \equiv 4 \pmod 7 | b \equiv 3 \pmod 7 | a = 3 | 3
\begin{pmatrix}1 & 2\\3 & 4\end{pmatrix} | \left[\begin{array}{cc}1 & 3\\2 & 4\end{array}\right]
\begin{pmatrix}1 & 2\\3 & 4\end{pmatrix} | \begin{bmatrix} 1 & 2 \\[4pt] 3 & 5 \end{bmatrix}
(1,2) | (x,y)=(2,1) | (x,y)=[1,2]
\text{August} | x = \text{May} | x = 8
TCP/IP | \text{TCP} | TCP/TP
"""


@pytest.mark.parametrize("line", RIGHT.strip().splitlines())
def test_a_value_is_known_in_the_notations_of_models(line: str) -> None:
    for reference, answer in pairs(line):
        assert equal_by_proof(answer, reference), answer


@pytest.mark.parametrize("line", WRONG.strip().splitlines())
def test_another_value_in_such_a_notation_is_wrong(line: str) -> None:
    for reference, answer in pairs(line):
        for given in {final_answer(answer), final_answer(rf"It is \boxed{{{answer}}}.")}:
            assert given is None or not equal_by_proof(given, reference), given


def test_each_notation_has_its_near_misses() -> None:
    missed, wrong = ({one for one, _ in pairs(table)} for table in (WRONG, RIGHT))
    assert missed - wrong == {"90"}
    assert wrong - missed <= {r"\emptyset", r"\pi", r"\frac{\sqrt{3}}{2} \text{ m}"}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Some thought.\nFinal answer: human rights", "human rights"),
        ("So the answer is **Ohm's law**.", "Ohm's law"),
        ("Therefore, the correct answer is Paris.", "Paris"),
        ("It takes 1 hour and 30 minutes.", "1 hour and 30 minutes"),
        ("It takes 1 hour, 90 minutes.", "It takes 1 hour, 90 minutes."),
    ],
)
def test_words_and_compound_quantities_are_taken_whole(text: str, answer: str) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        *(
            "I doubt that the answer is Paris.",
            "Perhaps the answer is Paris.",
            "Is the answer Paris?",
        ),
        *(
            "The answer is not Paris.",
            "It is wrong that the answer is Paris",
            "No answer is Paris.",
        ),
        *("The answer is Paris or Rome.", "The answer is Paris?", "If so, the answer is Paris."),
    ],
)
def test_a_claim_that_is_doubted_denied_or_left_open_gives_no_words(text: str) -> None:
    found = final_answer(text)
    assert found is None or not equal_by_proof(found, "Paris")


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{\text{Paris}}", "Paris"),
        (r"$\boxed{\textbf{\text{New York}}}$", "New York"),
        (r"\boxed{$\text{a}$}", "a"),
        (r"\boxed{\text{a} \text{b}}", r"\text{a} \text{b}"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{}", ""),
    ],
)
def test_what_is_boxed_stands_without_its_font(text: str, content: str) -> None:
    assert extract(text, Extract.BOXED) == content


@pytest.mark.parametrize(
    ("text", "word"), [("日本。", "日本"), ("日本 。", "日本"), ("भारत।", "भारत"), ("مصر۔", "مصر")]
)
def test_the_full_stop_of_any_script_does_not_count(text: str, word: str) -> None:
    assert normalize_answer(text) == word
    assert equal_by_proof(text, word)
    assert not equal_by_proof(f"{word[0]}。{word[1:]}", word)


@pytest.mark.parametrize(
    "unit", [r"\ln", r"\sqrt", r"\frac", "^-", r"\sin^{-1}", "2^", "(", r"\lfloor"]
)
@pytest.mark.slow
def test_commands_nested_without_end_are_no_formula(unit: str) -> None:
    assert not equal_by_proof(unit * 150 + "2", "x+7")
