"""A text's remarks on its answer: denials, doubts, other answers, words next to numbers."""

import random
import time

import pytest

from assay_shared.answers import remark_words
from assay_shared.answers.choices.choice import chosen_letter
from assay_shared.answers.choices.options import ChoiceOptions
from assay_shared.answers.equality import NeedsProof, equal_by_proof, settled
from assay_shared.answers.extraction import Extract, extract, final_answer

CITIES = ChoiceOptions(("Paris", "London", "Rome", "New York"))
NUMBERS = (r"\boxed{7}", r"So it is $\boxed{7}$", "<answer>7</answer>", "7", "The answer is 7")
LETTERS = (r"\boxed{A}", r"$\boxed{\text{A}}$", "<answer>A</answer>", "A", "The answer is A", "(A)",
           r"\boxed{Paris}", "Answer: A", "I choose A")  # fmt: skip

#: What a sentence says of the answer that it begins with.
SAID = """is wrong|is incorrect|is not right|isn't correct|is false|is a trap|is a distractor
cannot be right|can't be correct|could not be right|has been ruled out|has to be ruled out
was rejected
was eliminated|must be discarded|is invalid|is not valid|is impossible|is not possible
is not the answer
isn't what we want|does not work|doesn't fit|does not satisfy the condition|fails
contradicts the premise
was my first guess|was my initial answer|was an earlier answer|is a mistake|is probably wrong
looks wrong
is off|is misleading|is only a guess|is uncertain|might be wrong|may be right
could be the answer
would be wrong|should be rejected|turns out to be wrong|proved to be incorrect
is the wrong answer
is one of the wrong answers|is far from right|is anything but correct|is hardly correct
is no longer my answer|is not my final answer|is what others say|is tempting but wrong
is almost right
is not quite right|is unlikely|is out of the question|can be excluded|should be crossed out
did not pass the check|won't work|never works|makes no sense|is extraneous|is not a solution
violates the constraint|leads nowhere|leads to a contradiction|used to be my answer
is the worst choice
would be the answer if x were positive"""
#: Remarks of a few words next to it.
REMARKS = """wrong|incorrect|false|not right|no|nope|a trap|just a guess|my guess|I guess|maybe
perhaps
probably|not sure|unsure|I think not|I am not certain|rejected|ruled out|invalid|not the answer
or so
which is wrong|which cannot be right|but that is wrong|but that's not right|but it fails
but I doubt it
but I'm guessing|though this is wrong|this is wrong|not really|scratch that|my mistake|or not
roughly
more or less|give or take|approximately|as a guess|if I had to guess|struck out|old answer
first attempt|wrong answer"""
#: Sentences behind it; {o} is another answer.
SENTENCES = """That is wrong.|This is incorrect.|That's not right.|This can't be right.
It isn't.|No.
Wrong.|Incorrect!|Not quite.|Wait, no.|Hmm, no.|Oops.|Never mind.|I was wrong.|My mistake.
Or so.
That answer is wrong.|The answer above is wrong.|My answer is incorrect.|I take that back.
Maybe not.
Let me redo this.|On second thought, no.|I changed my mind.|But I am not sure.|This is a guess.
That was my first guess.|Probably wrong.|Actually no.|However, that is wrong.|But this fails.
This does not satisfy the equation.|Disregard that answer.|That is not the answer.|I doubt it.
I don't think so.|I do not trust this.|Correction: {o}.|Edit: {o}|Actually, it is {o}.|No, {o}.
So {o}.
Wait, it is {o}.|The answer is {o}.|The answer should be {o}.|It should be {o}.|I mean {o}.
Rather {o}.
Or maybe {o}.|I'd go with {o}.|Make that {o}.|My final answer is {o}.|It's {o} instead.
In fact it is {o}."""
#: What leads to it.
LEADS = """not |never |maybe |perhaps |probably |I guess |My guess is |not sure, but 
I'm not sure, but
The answer is not |The answer isn't |The answer cannot be |It is not |It's not 
It is wrong to say
It is not true that the answer is |I don't think the answer is |I doubt that the answer is 
Some say
Some would say |Many people answer |One might think it is |The wrong answer is 
The tempting answer is
Wrong: |anything but |other than |instead of |If it were |Suppose the answer is 
The answer might be
The answer could be |It may be |I thought it was |My first guess was |The answer is maybe
The answer is probably |It's definitely not |Bob claims it is |It used to be 
The answer is no longer
far from |No way it is |I would never say |The answer is, in fact, not """


def listed(table: str) -> list[str]:
    return [one for line in table.splitlines() for one in line.split("|") if one]


def remarked(answer: str, other: str) -> list[str]:
    """Return the answer with each remark to deny, doubt or replace it."""
    joints = (", {}", " ({})", " - {}", "; {}", ": {}", " ... {}")
    return [
        *(f"{answer} {said}." for said in listed(SAID)),
        *(answer + joint.format(remark) for remark in listed(REMARKS) for joint in joints),
        *(
            f"{answer}.{space}{sentence.format(o=other)}"
            for sentence in listed(SENTENCES)
            for space in (" ", "\n", "\n\n")
        ),
    ]


def is_seven(text: str) -> bool:
    given = final_answer(text)
    if given is None:
        return False
    try:
        return settled(given, "7") is True
    except NeedsProof:
        return equal_by_proof(given, "7")


@pytest.mark.parametrize("answer", NUMBERS)
def test_a_number_that_the_text_denies_doubts_or_replaces_is_no_answer(answer: str) -> None:
    assert [text for text in remarked(answer, "8") if is_seven(text)] == []


@pytest.mark.parametrize("answer", LETTERS)
def test_an_option_that_the_text_denies_doubts_or_replaces_is_not_chosen(answer: str) -> None:
    assert [text for text in remarked(answer, "B") if chosen_letter(text, CITIES) == "A"] == []


@pytest.mark.parametrize("lead", listed(LEADS))
def test_what_leads_to_an_answer_may_deny_it(lead: str) -> None:
    lead = lead.rstrip() + " "
    texts = [f"{lead}{one}." for one in (r"\boxed{7}", "$\\boxed{7}$", "<answer>7</answer>", "7")]
    assert [text for text in texts if is_seven(text)] == []
    texts = [f"{lead}{one}." for one in (r"\boxed{A}", r"\boxed{Paris}", "<answer>A</answer>", "A")]
    assert [text for text in texts if chosen_letter(text, CITIES) == "A"] == []


@pytest.mark.parametrize(
    "answer",
    [
        *(r"\boxed{A} is incorrect, so B", r"\boxed{A} is a trap, B", r"$\boxed{A}$ is false"),
        *(
            r"\boxed{A} should be B",
            r"~~\boxed{A}~~ \boxed{B}",
            "#### A\nThat is wrong",
            "#### A (wrong)",
        ),
    ],
)
def test_an_option_that_is_replaced_in_its_sentence_is_not_chosen(answer: str) -> None:
    assert chosen_letter(answer, CITIES) != "A"


@pytest.mark.parametrize(
    "text",
    listed(r"""\boxed{7}|The answer is $\boxed{7}$, which is not negative.
\boxed{7} is the correct answer.
\boxed{7} students who did not come|\boxed{7}, which cannot be simplified further.
\boxed{7} is not wrong.
The number of students not in class is \boxed{7}.|\boxed{7}, not 8.
There is no doubt that it is \boxed{7}.
The answer isn't 8, it's \boxed{7}.|It is not 8 but \boxed{7}.|8 is wrong, so \boxed{7}
\boxed{7} works; 8 fails.
8 was my first guess; the answer is \boxed{7}|No, the answer is \boxed{7}.
Wait, it is \boxed{7}.
Maybe 8? No, \boxed{7}.|About 40% of it may be lost. Hence the answer is \boxed{7}.
\boxed{7} remains.
I think the answer is \boxed{7}.|The probability that it fails is \boxed{7}.
\boxed{7} because 8 is wrong.
\boxed{7} since 8 does not work.|\boxed{7}. Alternatively, we could add 3 and 4.
\boxed{7} false coins
\boxed{7}. We can check that this is not 8.|\boxed{7} possible values
\boxed{7} colors may be used
the set has at most \boxed{7} elements|The answer must be \boxed{7} and cannot be anything else.
$\frac{50}{7} \approx \boxed{7}$|\boxed{7} is neither even nor negative
\boxed{7}. I hope it is correct.
<answer>7</answer>|Half of 14 is 7.|It was not easy, but the answer is 7.|7 ✅|The total is 7.
the system has no solution for $x = \boxed{7}$|\boxed{7}. Therefore the answer is 7.
I was not sure.\n#### 7
The answer is not so easy to see.\n\n\boxed{7}|Which is it? \boxed{7}
\boxed{7} three-digit numbers which are not even
\boxed{7} non-empty subsets|It may rain. The answer is 7."""),
)
def test_remarks_about_other_things_leave_an_answer_alone(text: str) -> None:
    assert is_seven(text.replace(r"\n", "\n"))


@pytest.mark.parametrize(
    "text",
    listed(r"""\boxed{A} is right because B is wrong|B is wrong, so the answer is A.
\boxed{A}. B is incorrect.
\boxed{A} since B, C and D are not in France|The answer is A. The others are wrong.
Not B. The answer is A
Option B is a trap. The answer is \boxed{A}|\boxed{A} is not wrong|It isn't B. So, A is correct.
There is no doubt that the answer is A.|The answer is A because the others fail.
I think the answer is A.
Answer: A\n\nHowever, B is not correct.|I was not sure.\n\n\boxed{A}"""),
)
def test_remarks_about_other_options_leave_a_choice_alone(text: str) -> None:
    assert chosen_letter(text.replace(r"\n", "\n"), CITIES) == "A"


@pytest.mark.parametrize(
    "text",
    listed(r"""about 7|around 7|roughly 7|nearly 7|close to 7|maybe 7|\approx 7|\boxed{\approx 7}
7 or so|7?
about \boxed{7}|approximately $\boxed{7}$|\approx \boxed{7}|roughly <answer>7</answer>
#### about 7
<answer>about 7</answer>|#### maybe 7|The answer is about 7.|It's around 7
\boxed{7} or thereabouts
\boxed{7}-ish|\boxed{7}, give or take"""),
)
def test_an_answer_that_is_only_near_is_no_exact_value(text: str) -> None:
    assert not is_seven(text)


@pytest.mark.parametrize(
    "text",
    listed(r"""at most 7|at least 7|The answer is at most 7|plus 7|point 7|inverse of 7|double 7
half of 7
square root of 7|kilo 7|mega 7|7 kilo|7 mega|7 grand|half of \boxed{7}
the square root of $\boxed{7}$
\boxed{\text{at most } 7}|minus \boxed{7}|twice 7|7 squared|7 halves|more than 7|7 lakh|7 crore
7 score
7 tens|7 gross|7 myriad|7 per cent|7 pct|7 permille|7 ppm|7 bps|7 basis points|minus 7
negative 7
\boxed{7} lakh|$\boxed{7}$ per cent|\boxed{\text{minus }7}|<answer>7 lakh</answer>|#### 7 crore
The answer is 7 per cent.|The answer is 7 lakh.|The answer is minus 7."""),
)
def test_words_that_make_another_value_of_a_number_never_leave_it_as_it_was(text: str) -> None:
    assert not is_seven(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("7 lakh", "700000"), ("7 lakhs", "700000"), ("7 crore", "70000000"), ("7 score", "140")),
        *(("7 gross", "1008"), ("7 myriad", "70000"), ("7 tens", "70"), ("7 per cent", "7%")),
        *(
            ("7 pct", "7%"),
            ("7 permille", "0.7%"),
            ("7 basis points", "0.07%"),
            ("7 ppm", "0.0007%"),
        ),
        *(("minus 7", "-7"), ("negative 7", "-7"), ("The answer is minus 7.", "-7")),
        *(("The answer is 7 lakh.", "700000"), ("The answer is 7 per cent.", "7%")),
        *(
            (r"\boxed{7} lakh", "700000"),
            (r"$\boxed{7}$ crore", "70000000"),
            (r"\boxed{7} per cent", "7%"),
        ),
        *(
            (r"\boxed{\text{minus }7}", "-7"),
            ("7 lakh rupees", "700000"),
            ("$7 million", "7000000"),
        ),
    ],
)
def test_words_that_make_a_certain_value_of_a_number_are_read(text: str, value: str) -> None:
    given = final_answer(text)
    assert given is not None
    assert settled(given, value) is True


def test_a_part_that_is_denied_is_not_extracted() -> None:
    assert extract(r"\boxed{Paris} is wrong", Extract.BOXED) is None
    assert extract("<answer>Paris</answer>. No.", Extract.TAGGED) is None
    assert extract("#### Paris\nThat is wrong.", Extract.MARKED) is None
    assert extract(r"\boxed{Paris} is right", Extract.BOXED) == "Paris"


@pytest.mark.slow
def test_no_remark_of_any_length_is_slow_or_fails() -> None:
    """A million characters of each phrase, behind an answer and ahead of it, take linear time."""
    parts = [*listed(SAID), *listed(SENTENCES), "or 8, ", "8. ", "~~", "~~a~~", r"\cancel{", "(",
             "? ", ", ", "mind. ", "not ", "so 8, ", "A is better. ", "because ", "x = ",
             ", in fact, ", "seven lakh ", "the ", "-", "of the "]  # fmt: skip
    for part in parts:
        body = (part + " ") * (1_000_000 // (len(part) + 1))
        for text in (
            rf"\boxed{{7}} {body}",
            rf"{body} \boxed{{7}}",
            body,
            f"7 {body}",
            f"{body} 7",
        ):
            began = time.process_time()
            final_answer(text)
            chosen_letter(text, CITIES)
            assert time.process_time() - began < 3, (part, text[:40])
    for part in parts[:: len(parts) // 12]:
        began = time.process_time()
        extract(r"\boxed{7} " + (part + " ") * (1_000_000 // (len(part) + 1)), Extract.BOXED)
        assert time.process_time() - began < 5, part


def test_any_words_around_an_answer_are_read() -> None:
    """Words of all tables in any order, with marks: no text may fail."""
    tables = [one for one in vars(remark_words).values() if isinstance(one, frozenset | tuple)]
    words = sorted({word.strip() for table in tables for word in table})
    marks = ["", " ", " ", ", ", ". ", "; ", "\n", " (", ") ", " - ", ": ", "? ", "... "]
    generator = random.Random(16)
    for _ in range(3_000):
        parts = generator.choices(
            [*words, "7", "8", "A", "B", "$", "{"], k=generator.randint(1, 12)
        )
        place = generator.randrange(len(parts))
        for answer in (r"\boxed{7}", r"\boxed{A}", "7"):
            text = "".join(
                part + generator.choice(marks) for part in (*parts[:place], answer, *parts[place:])
            )
            final_answer(text)
            chosen_letter(text, CITIES)
