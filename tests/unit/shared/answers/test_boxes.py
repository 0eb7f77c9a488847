"""A box is the answer only if no sign, digit or value next to it makes it a part of another."""

import pytest

from assay_shared.answers.equality import equal_by_proof
from assay_shared.answers.extraction import final_answer

EXTENDED = (
    *(r"\boxed{7}0", r"\boxed{7}.5", r"\boxed{7},000", r"\boxed{7}_8", r"\boxed{7}:30"),
    *(r"\boxed{7}{,}000", r"\boxed{7}\,000", r"\boxed{7} 000", r"\boxed{7}½", r"\boxed{7}²"),
    *(r"1\boxed{7}", r"$1\boxed{7}$", r"0.\boxed{7}", r"3:\boxed{7}", r"½\boxed{7}"),
    *(r"√\boxed{7}", r"5−\boxed{7}", r"\boxed{7}×2", r"\boxed{7} · 2", r"\boxed{7}\overline{3}"),
    *(
        r"\boxed{7}e3",
        r"\boxed{7}-9",
        r"-\boxed{7}",
        r"\frac{1}{\boxed{7}}",
        r"\boxed{7}\frac{1}{2}",
    ),
    *(r"$x = - \boxed{7}$", r"$x=-\,\boxed{7}$", r"$-\left(\boxed{7}\right)$", r"$-{\boxed{7}}$"),
    *(r"$3 \boxed{7}$", r"$\left(\boxed{7}\right)^2$", r"$\boxed{7}\,^2$", r"$\boxed{7}\,x$"),
    *(r"$\boxed{7} \, \pi$", r"$\boxed{7} < x$", r"$\boxed{7} \le x \le 50$", r"$|\boxed{7}|-1$"),
    *(r"$\sin(\boxed{7})$", r"$\log_{2}\boxed{7}$", r"$2 + \boxed{7}$", r"\[ 4 \cdot \boxed{7} \]"),
    *(r"\boxed{7} or more", r"\boxed{7} at most", r"\boxed{7} times 3", r"O(\boxed{7})"),
)
REMARKED = (
    *(r"A careless solver would write \boxed{7}.", r"An incorrect approach leads to \boxed{7}."),
    *(
        "\\boxed{8}\n\n(Previously I said \\boxed{7}.)",
        r"So far we have \boxed{7}; adding 1 gives 8.",
    ),
    *(
        "\\boxed{8}\n\nNote: my first attempt gave \\boxed{7}.",
        r"<think>It is \boxed{7}</think> I don't know.",
    ),
    *(
        "\\boxed{8}\n\nFor comparison, without the discount it would be \\boxed{7}.",
        r"<think>\boxed{7}",
    ),
)
BESIDE_ANOTHER = (
    *(r"8 or \boxed{7}", r"$x=8$ or $x=\boxed{7}$", r"either 8 or \boxed{7}", r"\boxed{7} or 8"),
    *(r"\boxed{7}, otherwise 8", r"\boxed{7}, or else 8", r"\boxed{7} else 8"),
    *(r"\boxed{7}, 8", r"\boxed{7},8", r"(\boxed{7}, 8)", r"[\boxed{7}, 8)", r"(8, \boxed{7})"),
    *(r"\{\boxed{7}, 8\}", r"\boxed{7}\text{ or }8", r"$\boxed{7} \lor 8$"),
)
ALONE = (
    *(r"So \boxed{7}.", r"\boxed{7}. 5 apples are left.", r"\boxed{7}, as 8 is even"),
    *(r"The answer is $\boxed{7}$, not 8.", r"3. \boxed{7}", r"1) \boxed{7}", r"\boxed{7}[1]"),
    *(r"x is 5 or more; \boxed{7}", r"2+5=\boxed{7}", r"10 - 3 = $\boxed{7}$.", r"**\boxed{7}**"),
    *(r"$P(A) = \boxed{7}$", r"$\boxed{7} \text{ km}$", r"$40 - 33 = \boxed{7}$ and not 3 + 5"),
    *(r"$$\boxed{7} \quad \text{(answer)}$$", r"$\therefore \boxed{7}$", r"$\boxed{7}\ m$"),
    *(
        r"\begin{align*} a &= 4+3 \\ &= \boxed{7} \end{align*}",
        r"It costs \$5, so \boxed{7} - done",
    ),
    *(r"$x = 1007 \equiv \boxed{7} \pmod{10}$", r"$x \longrightarrow \boxed{7}$", r"$\$\boxed{7}$"),
    *(r"Using the first result, we get \boxed{7}.", r"<think>It is 8.</think>So \boxed{7}"),
    *(r"\[\boxed{7}\]", r"\(\boxed{7}\)", r"(that is, \boxed{7})", r"$$x = \boxed{7},$$"),
)


@pytest.mark.parametrize("text", [*EXTENDED, *BESIDE_ANOTHER, *REMARKED])
def test_a_box_that_is_part_of_another_value_is_not_the_answer(text: str) -> None:
    answer = final_answer(text)
    assert answer is None or not equal_by_proof(answer, "7")


@pytest.mark.parametrize("text", ALONE)
def test_punctuation_and_prose_around_a_box_change_nothing(text: str) -> None:
    assert final_answer(text) == "7"
