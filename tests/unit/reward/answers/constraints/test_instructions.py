import pytest

from assay_reward.answers.constraints.instructions import (
    KINDS,
    Instructions,
    follows,
    follows_loosely,
)
from assay_reward.answers.constraints.length import num_sentences
from assay_reward.verifiers.constraints import CONSTRAINTS
from assay_shared.errors import InvalidInput
from tests.support.reward.measuring import measure

LEAST, LESS = "at least", "less than"
ENGLISH = "the weather is nice today and we will all go out for a long walk in the park"

#: By name: arguments, texts that follow, texts that do not.
CASES: list[tuple[str, dict[str, object], list[str], list[str]]] = [
    ("keywords:existence", {"keywords": ["Sun", "moon"]}, ["moonlight, SUN"], ["sun", "stars"]),
    (
        "keywords:frequency",
        {"keyword": "yes", "frequency": 2, "relation": LEAST},
        ["Yes, yes!", "yes yes yes"],
        ["yes"],
    ),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, ["category"], ["a Cat."]),
    (
        "keywords:letter_frequency",
        {"letter": "q", "let_frequency": 2, "let_relation": LESS},
        ["Quiet"],
        ["Quiet quarters"],
    ),
    (
        "language:response_language",
        {"language": "de"},
        ["Das Wetter ist heute schön, und wir gehen alle zusammen in den Park."],
        [ENGLISH],
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": LEAST},
        ["One. Two.", "Is it? Yes"],
        ["Dr. Who came at 3.5 p.m. yesterday.", "One"],
    ),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        ["one\n***\ntwo", "***\none\n***\ntwo"],
        ["one\n\ntwo", "one\n***\n***\ntwo", "one"],
    ),
    (
        "length_constraints:number_words",
        {"num_words": 3, "relation": LESS},
        ["two words"],
        ["now three words"],
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"},
        ['first\n\n"Then, second'],
        ["first\n\nsecond then", "then", "a\n\nthen\n\nc", "a\n\n*then* b", "a\n\n\n\nthen b"],
    ),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        ["Dear [name], at [address]"],
        ["Dear [name]", "[ [", "[a\nb] [c]"],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.S."},
        ["Bye.\nP.S. more", "x\np. s. more"],
        ["Bye.", "P.P.S", "PS bye"],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.P.S"},
        ["x\nP.P.S more", "see p. p. s there"],
        ["x\nP.S. more"],
    ),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 2},
        ["* one\n* two", "- one\n  - two", "*\n* one\n- two"],
        ["* one", "* 1\n* 2\n* 3", "**bold** one\n* two"],
    ),
    (
        "detectable_format:constrained_response",
        {},
        ["My answer is no."],
        ["no", "My answer is yes"],
    ),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        ["*one* and *two*", "*one* and **two**"],
        ["*one*", "* * and **  **"],
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        ["Section 1\na\nSection 2\nb"],
        ["Section 1\na", "section 1 section 2"],
    ),
    (
        "detectable_format:json_format",
        {},
        ['{"a": 1}', '```json\n{"a": 1}\n```'],
        ["a: 1", 'Here: {"a": 1}'],
    ),
    ("detectable_format:title", {}, ["<<On cats>>\nThey purr."], ["<< >>", "On cats"]),
    ("combination:two_responses", {}, ["a\n******\nb"], ["a", "a******a", "a******b******c"]),
    (
        "combination:repeat_prompt",
        {"prompt_to_repeat": "Why? "},
        ["why? Because."],
        ["Because. Why?"],
    ),
    ("startend:end_checker", {"end_phrase": "The end."}, ['"... the END."'], ["The end. Bye"]),
    ("startend:quotation", {}, ['"all of it"'], ['"', '"some" of it', "none"]),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": LEAST},
        ["HELLO to the NATO"],
        ["Hello to NATO"],
    ),
    ("change_case:english_capital", {}, [ENGLISH.upper()], [ENGLISH, "12"]),
    ("change_case:english_lowercase", {}, [ENGLISH], [ENGLISH.title()]),
    ("punctuation:no_comma", {}, ["no comma here"], ["here, one"]),
]


def test_every_kind_has_a_case() -> None:
    assert {name for name, *_ in CASES} == set(KINDS)
    assert len(KINDS) == 25


@pytest.mark.parametrize(
    ("name", "kwargs", "right", "wrong"), CASES, ids=[name for name, *_ in CASES]
)
def test_instructions_are_followed_or_not(
    name: str, kwargs: dict[str, object], right: list[str], wrong: list[str]
) -> None:
    constraint = KINDS[name].model_validate(kwargs)
    assert [text for text in right if not follows(constraint, text)] == []
    assert [text for text in [*wrong, "", " \n"] if follows(constraint, text)] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("No mark", 1),
        ("Mr. Smith met Dr. Jones. They left!", 2),
        ("It costs 3.50 in all. Really?! Yes...", 3),
        ("Heading\n\nOne sentence.", 2),
    ],
)
def test_sentences_are_counted_by_their_marks(text: str, count: int) -> None:
    assert num_sentences(text) == count


def test_loosely_a_line_of_small_talk_and_asterisks_are_passed_over() -> None:
    quoted = KINDS["startend:quotation"].model_validate({})
    talk = 'Sure:\n**"all of it"**\nAnything else?'
    assert not follows(quoted, talk)
    assert follows_loosely(quoted, talk)
    assert not follows_loosely(quoted, "Sure:\nnone of it\nbye")


TWO = {
    "instruction_id_list": ["punctuation:no_comma", "startend:quotation"],
    "kwargs": [{"num_words": None}, {}],
}


async def test_the_value_is_the_share_or_all() -> None:
    answers = ('"both"', "one", '"a, b", c')
    checks = {"constraints": TWO}
    assert await measure(CONSTRAINTS, *answers, checks=checks) == [1.0, 0.5, 0.0]
    options = {"value": "all", "mode": "loose"}
    assert await measure(CONSTRAINTS, *answers, checks=checks, options=options) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("names", "kwargs", "message"),
    [
        (["nonsense"], [{}], "no instruction is called 'nonsense'; known: change_case:capital"),
        (["startend:quotation"], [], "kwargs must have one entry for each"),
        (["startend:quotation"], [{"x": 1}], r"startend:quotation\.x: Extra inputs"),
        (["keywords:existence"], [{}], r"keywords:existence\.keywords: Field req"),
    ],
)
async def test_instructions_that_cannot_be_checked_name_the_field(
    names: list[str], kwargs: list[dict[str, object]], message: str
) -> None:
    checks = {"constraints": {"instruction_id_list": names, "kwargs": kwargs}}
    with pytest.raises(InvalidInput, match=message) as refused:
        await measure(CONSTRAINTS, "x", checks=checks)
    assert refused.value.field == "task.checks.constraints"


def test_ifevals_own_rows_parse() -> None:
    row = Instructions.model_validate(
        {
            "instruction_id_list": ["detectable_format:number_highlighted_sections"],
            "kwargs": [{"num_highlights": 3, "relation": None, "num_words": None}],
        }
    )
    assert len(row.constraints) == 1
