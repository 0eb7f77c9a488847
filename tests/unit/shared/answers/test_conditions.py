"""Conditions, assignments, sets and matrices: references, and texts with another meaning.

Each line has a reference, right answers, and behind "||" wrong answers.
"""

import pytest

from assay_shared.answers.equality import equal_by_proof

CONDITIONS = r"""
x>3 or x<-3 | (-\infty,-3)\cup(3,\infty) | x<-3, x>3 | x < -3 \lor x > 3 || x>3 and x<-3 | (-3,3)
(-\infty,-3)\cup(3,\infty) | x<-3 \text{ or } x>3 || x<-3 and x>3 | -3<x<3 | x<-3 | y<-3 or x>3
-3<x and x<3 | -3<x<3 | (-3,3) | x<3, x>-3 || -3<x or x<3 | x<-3 or x>3 | -3<x | [-3,3]
x \ne 3 | (-\infty,3)\cup(3,\infty) | x<3 or x>3 | 3 \ne x || x<3 and x>3 | x=3 | x \ne -3 | y \ne 3
[1,3) | [1,2]\cup(2,3) | [1,2]\cup[2,3) || [1,2)\cup(2,3) | [1,2]\cap(2,3) | [1,2]\cup(2,3]
(1,2] | (0,2]\cap(1,3) | x>1 \land x \le 2 || (0,2]\cup(1,3) | (1,2]\cup(3,2)
x<-\sqrt{3} or x>\sqrt{3} | (-\infty,-\sqrt3)\cup(\sqrt3,\infty) || x<-\sqrt{3} and x>\sqrt{3}
-\sqrt{3}<x and x<\sqrt{3} | (-\sqrt3,\sqrt3) || -\sqrt{3}<x or x<\sqrt{3}
x>2 or x=1 | \{1\}\cup(2,\infty) || x>2 and x=1 | x>1 | x>2
x>1 and y>2 | y>2, x>1 || x>1 or y>2 | x>2 and y>1 | x>1
x \ne 0 | \mathbb{R}\setminus\{0\} | (-\infty,\infty)\setminus\{0\} | \{x \mid x \ne 0\}
x<-2 or x>3 | \{x \mid x<-2 \lor x>3\} || \{x \mid x<-2 \land x>3\} | \{y \mid x<-2 \lor x>3\}
x+y \ne 3 | 2x+2y \ne 6 || y = 3-x | x+y = 3
y = 2x || y \in 2x
x<2 and x \ne 1 | (-\infty,1)\cup(1,2) || x<2 or x \ne 1 | x<2, x=1
a+b=1 and a-b=3 | a-b=3, a+b=1 || a+b=1 or a-b=3
x \ne 2, 3 || x=3 | 3 | x \ne 3
x=1 or y=2 || x=1 and y=2 | x=1, y=2
"""
NAMES = r"""
x=1, y=2 | y=2, x=1 | (1,2) | (x,y)=(1,2) | x=1 and y=2 | (y,x)=(2,1) || 2,1 | 1,2 | y=1, x=2
x=1, y=2 || (2,1) | \{1,2\} | x=1 | [1,2] | (y,x)=(1,2) | x=1, z=2 | x=1, y=2, z=3 | a=1, b=2
y=1, x=2 | x=2, y=1 || (1,2) | 1,2
(x,y)=(1,2) | (1,2) | x=1, y=2 || (2,1) | (y,x)=(1,2) | \{1,2\}
1,2 | x=1 or x=2 | x_1=1, x_2=2 | x=1, 2 || x=1, y=2 | x_1=1, y_2=2
x_1=1, x_2=2 | x_2=2, x_1=1 | 1,2 || 2,1 | x_1=2, x_2=1
x=\pm 2 | x=2 or x=-2 | 2,-2 | x=-2, 2 || y=2 or y=-2 | x=2 | y=\pm 2
x=1, y=2 or x=2, y=1 | x=2, y=1 or x=1, y=2 | (1,2),(2,1) || x=1, y=1 or x=2, y=2
x=1, y=2; x=3, y=4 | (1,2), (3,4) || x=1, y=4; x=3, y=2
"""
SETS = r"""
\{\{1,2,3\}\} || \{1,2,3\} | 1,2,3
\{\{1\},\{2\}\} | \{\{2\},\{1\}\} || \{1,2\} | \{\{1,2\}\} | 1,2
\emptyset | \{\} || \{\{\}\} | \{\emptyset\} | \{0\} | 0
\{1,2\} | 1,2 | x=1 or x=2 || \{x \mid x=1 \land x=2\} | \{x \mid x>1 \land x<2\} | \emptyset
\{5\} | 5 | x=5 | x \in \{5\} || \{\{5\}\} | \{5,5\}
\{1,2\}\cup\{2,3\} | \{1,2,3\} || \{1,2,2,3\} | \{1,3\}
1,2 or 3 | 1,2,3 || 1,2 | 1,(2,3)
3 \pm 2 | 1, 5 || 5 | 1
"""
NOTATIONS = r"""
5 | x = 5 || \not= 5 | x \not= 5 | \neg 5 | 1 5
118 || 1 18 | 1 1 8 | 11 8
notable || not able | \text{not able}
p \wedge q || p \vee q | p, q
\text{ten minutes} || \text{net minutes}
n!! || n! | (n!)!
(n!)! || n!!
\frac{dy}{dx} | \frac{ dy }{ dx } || \frac{y}{x} | \frac{dx}{dy} | \frac{dy}{dt}
\frac{dy}{dx} = 2x + 3 | \frac{dy}{dx} = 3 + 2x || \frac{y}{x} = 2x + 3
\frac{d}{dx} || \frac{1}{x}
\frac{d}{2d} | \frac{1}{2}
(a,b) = (2,13) | (2,13) || (2,13] | (a,b) = (2,13]
"""
MATRICES = r"""
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \left[\begin{array}{cc}1&2\\3&4\end{array}\right] || -2
\begin{bmatrix}1&2\\3&4\end{bmatrix} || \begin{vmatrix}1&2\\3&4\end{vmatrix}
\begin{bmatrix}1&2\\3&4\end{bmatrix} || \det\begin{pmatrix}1&2\\3&4\end{pmatrix}
\begin{bmatrix}1&2\\3&4\end{bmatrix} || \left\|\begin{matrix}1&2\\3&4\end{matrix}\right\|
\begin{bmatrix}1&2\\3&4\end{bmatrix} || \begin{Vmatrix}1&2\\3&4\end{Vmatrix}
\begin{bmatrix}1&2\\3&4\end{bmatrix} || \left|\begin{array}{cc}1&2\\3&4\end{array}\right|
\begin{vmatrix}1&2\\3&4\end{vmatrix} | -2 | \det\left(\begin{matrix}1&2\\3&4\end{matrix}\right) || 2
ad-bc | \begin{vmatrix}a&b\\c&d\end{vmatrix} || \begin{vmatrix}a&c\\d&b\end{vmatrix}
0 | \begin{vmatrix}1&2&3\\4&5&6\\7&8&9\end{vmatrix} || \begin{vmatrix}1&2&3\\4&5&6\\7&8&0\end{vmatrix}
\begin{pmatrix}1\\2\end{pmatrix} || \begin{pmatrix}1&2\end{pmatrix} | (1,2) | \begin{vmatrix}1\\2\end{vmatrix}
"""  # noqa: E501  # a line of a table


@pytest.mark.parametrize(
    "line",
    [
        line
        for table in (CONDITIONS, NAMES, SETS, NOTATIONS, MATRICES)
        for line in table.split("\n")
        if line
    ],
)
def test_what_a_reference_says_is_right_and_other_things_are_wrong(line: str) -> None:
    right, _, wrong = line.partition("||")
    reference, *equal = (part.strip() for part in right.split(" | "))
    for answer in equal:
        assert equal_by_proof(answer, reference), answer
    for answer in filter(None, (part.strip() for part in wrong.split(" | "))):
        assert not equal_by_proof(answer, reference), answer
        assert not equal_by_proof(reference, answer), answer
