"""Multiple choice: texts that choose an option, and texts without a choice."""

import random
import re
import time

import pytest

from assay_shared.answers.choices.choice import (
    _CLAIM,
    _CORRECT,
    _last_claiming,
    _last_correct,
    chosen_letter,
)
from assay_shared.answers.choices.options import ChoiceOptions
from assay_shared.answers.extraction import fenced, final_answer, last_match, last_tagged

CITIES = ChoiceOptions(("Paris", "London", "Rome", "New York"))
NUMBERS = ChoiceOptions(("-5", "5", "i", "-i"))


@pytest.mark.parametrize(
    "text",
    r"""B;b;(B);(b);[B];B.;B);\boxed{B};\boxed{\text{B}};\boxed{\textbf{(B)}};\boxed{\text{London}}
London;london.;B. London;B: London;**(B) London**;Option B;option b.;#### B;<answer>B</answer>
The answer is B;The answer is (B).;The answer is: B;Answer: B;answer: **B**;ANSWER: (B);Answer:B
The answer is $B$;The answer is `B`;The answer is London;Answer is option B;So, B is correct.
The best choice is B.;The answer is therefore B;The answer should be B;答案是B;答案：B;正解はB
La respuesta correcta es: B;Antwort: B;I choose B;I'd go with option B.;Hence, B.;It's B.
The correct answer is **B) London**.;The answer is B because it is.;A is wrong, so the answer is B.
The answer is (B). A, C and D are not in England.;B is the correct answer.;Answer: a\n\nAnswer: B
Reasoning...\n\nB;Reasoning...\nAnswer\nB;B) London\n\nExplanation: it is the capital.
First \boxed{A}. Then I saw more: \boxed{B}.;\boxed{A} is what I had.\nSo \boxed{B}.
\boxed{B}\n\nIt is the capital.;Answer: B\n\nHowever, A is not correct.
#### Analysis\nSo it is.\n#### B;\boxed{B}\boxed{B}""".replace("\n", ";").split(";"),
)
def test_the_usual_ways_choose_an_option(text: str) -> None:
    assert chosen_letter(text.replace(r"\n", "\n"), CITIES) == "B"


@pytest.mark.parametrize(
    "text",
    r"""A;B or C;The answer is A or B;The answer is B and C;The answer is B, C;The answer is B | C
The answer is B\C;The answer is B, possibly C;A B C D;B A;\boxed{};\boxed{B, C};A) London;B) Rome;E
The answer is a city;The answer is B vitamins are bad, so C;The answer is B-ish;Β;В;not London
Option B is wrong. Option C is right.;Option C is right, option B is wrong.;I would eliminate B
Is the answer B? No, it is C.;If the answer is B then contradiction.
The answer is B) London or C) Rome
The answer is B **or** C;My choice a b c;A quick thought;The answer is a mystery;I do not know
The answer is not B;I do not think the answer is B;B?;The answer is B?;Maybe B;The answer may be B
Either A or B;B is not the correct answer;The answer is B. Wait, C.;The answer is B. No, C.;Bob
Answer: B\nActually, it is C;The answer is B. That is wrong.;All but B;If B were true, it would be C
The answer is C, not B;B is correct or C is correct;London or Rome;Londonderry;I cannot choose B
The answer is B because I guess, or C;A) Paris\nB) London;A\nB;The worst choice is B;B+;B-;b or c
Some say the answer is B.;A student claims the answer is B.;The answer isn't B;Vitamin B
B... no, C;\boxed{A}\boxed{B} ... no;\boxed{A} or \boxed{B};\boxed{B}. No, C.;\boxed{B} or C
\boxed{B;\boxed{A}, \boxed{B};<answer>B</answer> no, C;\boxed{B} Wait, I think C
Answer: B\n\nHowever, C is better.;Answer: B\n\nI changed my mind: C.;Answer: B\n\nEdit: C
<answer>C</answer><answer>B</answer>;#### C\n#### B;Answer: B\n\nUltimately Rome.
My friend's answer is B.;\boxed{C}, \boxed{B}\boxed{B};\boxed{B}\nActually, it is C.
\boxed{B} ... maybe""".replace("\n", ";").split(";"),
)
def test_hedges_negations_and_several_options_choose_none(text: str) -> None:
    assert chosen_letter(text.replace(r"\n", "\n"), CITIES) != "B"


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("5", "B"),
        ("-5", "A"),
        ("B) -5", None),
        ("A) -5", "A"),
        ("5.0", "B"),
        ("-i", "D"),
        ("The answer is A because option B is wrong.", "A"),
        ("answer: I do not know", None),
    ],
)
def test_signs_count_in_options(text: str, letter: str | None) -> None:
    assert chosen_letter(text, NUMBERS) == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B) is right.", None),
        ("B. is right", None),
        ("A) is right because of that", None),
        ("B is correct.", "B"),
        ("C) is right.", "C"),
        ("B) seems so", "B"),
    ],
)
def test_the_text_of_one_option_behind_the_letter_of_another_chooses_none(
    text: str, letter: str | None
) -> None:
    options = ChoiceOptions(("is wrong", "seems so", "is right", "is right because of that"))
    assert chosen_letter(text, options) == letter


@pytest.mark.parametrize(
    "part",
    ["\n", " ", "The answer is\n", "a", "1,", "$", r"\boxed{", r"\boxed{}", "<answer>", "####",
     "```\n", "(", "{", "- ", "B or ", "so, ", "Answer: ", '"', "!", "1/", "=",
     r"\text{", "choice is "],
)  # fmt: skip
def test_no_text_is_slow_to_read(part: str) -> None:
    text = "The answer is" + part * (400_000 // len(part)) + "x"
    began = time.process_time()
    chosen_letter(text, CITIES)
    final_answer(text)
    fenced(text)
    last_tagged(text)
    assert time.process_time() - began < 1.0


def test_claims_are_found_where_a_search_of_the_whole_text_finds_them() -> None:
    """Texts are put together from the patterns' own words: no claim may begin unnoticed."""
    written = _CLAIM.pattern.replace("\\ ", " ") + _CORRECT.pattern
    words = sorted(set(re.findall(r"[A-Za-z']+(?: [a-z]+)?", written)))
    generator = random.Random(16)
    num_claims = 0
    for _ in range(5_000):
        parts = generator.choices([*words, "B", "Rome", "it", "Soon"], k=generator.randint(1, 7))
        joints = generator.choices([" ", " ", ". ", "! ", ": ", ", ", "\n", "-", ""], k=len(parts))
        text = "".join(part + joint for part, joint in zip(parts, joints, strict=True))
        text = generator.choice([text, text.upper(), text.title(), f"é {text}"])
        claim = last_match(_CLAIM, text)
        num_claims += claim is not None
        assert _span(_last_claiming(text)) == _span(claim), text
        assert _span(_last_correct(text)) == _span(last_match(_CORRECT, text)), text
    assert num_claims > 1_000


def _span(found: re.Match[str] | None) -> tuple[int, int] | None:
    return None if found is None else found.span()


CAPITALS = ChoiceOptions(("Berlin", "Paris", "Lyon", "Rome"))


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B!", "B"),
        ("B ✅", "B"),
        ("B. Paris is the capital of France.", "B"),
        ("(B) Paris, since it is the capital.", "B"),
        ("B, since Paris is the capital.", "B"),
        ("Thus (B) is the answer.", "B"),
        ("<think>Maybe A? No. C? No.</think>B", "B"),
        ("<think>B is the answer.", None),
        ("B\n\nExplanation: the capital of France is Lyon, so C.", None),
        ("The answer is B. Explanation: Lyon is right.", None),
        ("B. Paris, but Lyon is more likely.", None),
        ("B. Paris is wrong.", None),
        ("B. Paris or C. Lyon", None),
        ("B. Parisian life", None),
        ("B, since I guess", None),
    ],
)
def test_a_letter_with_its_text_or_a_reason_is_a_choice_unless_another_follows(
    text: str, letter: str | None
) -> None:
    assert chosen_letter(text, CAPITALS) == letter
