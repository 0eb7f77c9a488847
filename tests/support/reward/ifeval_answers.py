"""Answers to IFEval's prompts that follow some instructions, nearly follow others, and vary how."""

import random
from collections.abc import Callable
from typing import Any

_SENTENCES = (
    "The weather was pleasant in the valley that week.",
    "We walked, slowly, towards the old bridge.",
    "Is this really what you wanted?",
    "Nobody could say why it had ended so soon!",
    "Dr. Smith arrived at 5 p.m. with a letter from the U.S. office.",
    "It costs $3.50 (about three euros) and it's worth every cent.",
    'She said: "I will not go there again."',
    "NASA and the FBI don't comment on well-known ideas...",
    "the river runs through the middle of the town",
    "Meine Freunde wohnen seit vielen Jahren in einem kleinen Haus am See.",
)
_JOINS = (" ", " ", "\n", "\n\n", "\n\n\n", "\n***\n", " *** ", "\n\n***\n\n")
_PIECES = (
    "* one point",
    "*",
    "- another point",
    "  - an inner point",
    "** two asterisks",
    "*light*",
    "**bold words**",
    "* *",
    "[name]",
    "[an [inner] place]",
    "[]",
    "<<A Title>>",
    "<< >>",
    "<<>>",
    "P.S. one more thing",
    "see p. s. below",
    "P.P.S. and another",
    "My answer is yes.",
    "My answer is no.",
    "******",
    "SECTION 1",
    "Section  2",
    "Day 3",
    "PARAGRAPH 4",
    "---",
)
Change = Callable[[str, dict[str, Any], random.Random], str]


def answers_to(row: dict[str, Any], number: int, seed: int) -> list[str]:
    """Return this number of answers to a row of IFEval's file, the same for the same seed."""
    draw = random.Random(f"{seed} {row['key']}")
    return [_answer(row, draw) for _ in range(number)]


def _answer(row: dict[str, Any], draw: random.Random) -> str:
    text = _prose(draw, draw.choice((0, 1, 3, 8, 30)))
    for name, kwargs in zip(row["instruction_id_list"], row["kwargs"], strict=True):
        if draw.random() < 0.75:
            given = {key: value for key, value in kwargs.items() if value is not None}
            text = _FOLLOW.get(name, _leave)(text, given, draw)
    if draw.random() < 0.3:
        text = draw.choice((str.upper, str.lower, str.title))(text)
    if draw.random() < 0.25:
        text = f"Sure, here it is:\n{text}\nLet me know!"
    return text


def _prose(draw: random.Random, number: int) -> str:
    parts = [
        draw.choice(_PIECES if draw.random() < 0.25 else _SENTENCES) + draw.choice(_JOINS)
        for _ in range(number)
    ]
    return "".join(parts)


def _near(number: int, draw: random.Random) -> int:
    return max(0, number + draw.choice((-1, 0, 0, 1)))


def _leave(text: str, given: dict[str, Any], draw: random.Random) -> str:
    return text


def _add(text: str, pieces: list[str], draw: random.Random) -> str:
    """Return the text with the pieces on separate lines, or within a line."""
    join = draw.choice(("\n", " ", "\n\n"))
    return join.join([text, *pieces] if draw.random() < 0.7 else [*pieces, text])


def _repeated(*pieces: str, key: str) -> Change:
    def add(text: str, given: dict[str, Any], draw: random.Random) -> str:
        number = _near(given[key], draw)
        return _add(text, [draw.choice(pieces) for _ in range(number)], draw)

    return add


def _keywords(text: str, given: dict[str, Any], draw: random.Random) -> str:
    words = given.get("keywords") or given.get("forbidden_words") or [given["keyword"]]
    number = given.get("frequency", 1)
    forms = (str.lower, str.upper, str.title, str)
    made = [draw.choice(forms)(word) + draw.choice(("", "s", ",", "!")) for word in words * number]
    return _add(text, made[: _near(len(made), draw)], draw)


def _sections(text: str, given: dict[str, Any], draw: random.Random) -> str:
    number = _near(given["num_sections"], draw)
    word = given["section_spliter"]
    return _add(text, [f"{word}{draw.choice((' ', '', '  '))}{n + 1}" for n in range(number)], draw)


def _first_word(text: str, given: dict[str, Any], draw: random.Random) -> str:
    number = _near(given["num_paragraphs"], draw)
    parts = [f"paragraph {n}, with words." for n in range(number)]
    at = given["nth_paragraph"] - 1
    if at < number:
        word = draw.choice((str.title, str.upper, str))(given["first_word"])
        form = draw.choice(
            ('"{}," he said', "'{}' it is", "{}: this", "*{}* so", "({}) a", "{}, b")
        )
        parts[at] = form.format(word)
    return draw.choice(("\n\n", "\n\n", "\n\n\n", "\n\n\n\n")).join(parts)


def _paragraphs(text: str, given: dict[str, Any], draw: random.Random) -> str:
    parts = ["A paragraph of words."] * _near(given["num_paragraphs"], draw)
    return draw.choice(("\n***\n", "***", " *** ", "\n\n***\n\n")).join(parts) + draw.choice(
        ("", "\n***", "\n*** x")
    )


def _words(text: str, given: dict[str, Any], draw: random.Random) -> str:
    missing = _near(given["num_words"], draw) - len(text.split())
    return text + " well-known words" * max(0, missing // 2)


def _sentences(text: str, given: dict[str, Any], draw: random.Random) -> str:
    return " ".join(draw.choices(_SENTENCES, k=max(1, _near(given["num_sentences"], draw))))


def _postscript(text: str, given: dict[str, Any], draw: random.Random) -> str:
    marker = draw.choice((str.lower, str.upper, str))(given["postscript_marker"])
    return text + draw.choice(("\n", " ", "\n\n")) + draw.choice((marker, "P. S.", "PS")) + " bye"


def _as_json(text: str, given: dict[str, Any], draw: random.Random) -> str:
    value = draw.choice(('{"a": [1, 2]}', '"text"', "{a: 1}", "[1, 2"))
    form = draw.choice(("{}", "```json\n{}\n```", "```\n{}\n```", "```JSON{}```", "Here: {}"))
    return form.format(value)


def _end(text: str, given: dict[str, Any], draw: random.Random) -> str:
    return text + str(given["end_phrase"]) + draw.choice(("", "", '"', " ", "!", "\n"))


def _quoted(text: str, given: dict[str, Any], draw: random.Random) -> str:
    return draw.choice(('"{}"', '"{}', ' "{}" \n')).format(text)


def _prompt(text: str, given: dict[str, Any], draw: random.Random) -> str:
    repeated = str(given.get("prompt_to_repeat", ""))
    return draw.choice((str, str.upper, str.strip))(repeated) + "\n" + text


def _two(text: str, given: dict[str, Any], draw: random.Random) -> str:
    parts = draw.choice((("one", "two"), ("one", "one"), ("one", "two", "three"), ("one",)))
    return "\n******\n".join(parts) + draw.choice(("", "\n******", "\n*******"))


def _plain(text: str, given: dict[str, Any], draw: random.Random) -> str:
    return text.replace(",", "")


def _capitals(text: str, given: dict[str, Any], draw: random.Random) -> str:
    words = draw.choices(("NATO", "A", "U.S.", "WELL-KNOWN", "I'M", "AT&T", "OK!", "B2B"), k=3)
    return _add(text, words * (given["capital_frequency"] // 3 + 1), draw)


_FOLLOW: dict[str, Change] = {
    "keywords:existence": _keywords,
    "keywords:frequency": _keywords,
    "keywords:forbidden_words": _keywords,
    "keywords:letter_frequency": lambda text, given, draw: (
        text + given["letter"] * _near(given["let_frequency"], draw)
    ),
    "length_constraints:number_sentences": _sentences,
    "length_constraints:number_paragraphs": _paragraphs,
    "length_constraints:number_words": _words,
    "length_constraints:nth_paragraph_first_word": _first_word,
    "detectable_content:number_placeholders": _repeated(
        "[name]", "[a [b]", "[c]]", key="num_placeholders"
    ),
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": _repeated(
        "* point", "- point", "  * inner", key="num_bullets"
    ),
    "detectable_format:constrained_response": lambda text, given, draw: _add(
        text, ["My answer is " + draw.choice(("yes.", "no.", "maybe.", "yes"))], draw
    ),
    "detectable_format:number_highlighted_sections": _repeated(
        "*part*", "**part**", "*a b*", key="num_highlights"
    ),
    "detectable_format:multiple_sections": _sections,
    "detectable_format:json_format": _as_json,
    "detectable_format:title": lambda text, given, draw: (
        draw.choice(("<<A title>>\n", "<A>\n", "<<a>> ")) + text
    ),
    "combination:two_responses": _two,
    "combination:repeat_prompt": _prompt,
    "startend:end_checker": _end,
    "startend:quotation": _quoted,
    "change_case:capital_word_frequency": _capitals,
    "change_case:english_capital": lambda text, given, draw: text.upper(),
    "change_case:english_lowercase": lambda text, given, draw: text.lower(),
    "punctuation:no_comma": _plain,
}
