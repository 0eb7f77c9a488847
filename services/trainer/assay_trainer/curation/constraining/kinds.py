"""Kinds of constraints by IFEval's names, each with arguments and a wording.

The verifier `constraints` checks them. Kinds that need a certain question (yes or no) or another
language are not here: they do not go with any instruction.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_WORDS = (
    "time people world water family school friend garden music history light market number house "
    "story health energy nature city river simple future travel value power reason chance change "
    "question practice important different"
)
_KEYWORDS = tuple(_WORDS.split())
_END_PHRASES = (
    "Is there anything else?",
    "I hope this helps.",
    "That is all.",
    "Let me know what you think.",
)
_FIRST_WORDS = ("First", "Today", "However", "Many", "The", "When")
_SECTIONS = ("SECTION", "Part", "Step", "Chapter")

#: Arguments by IFEval's names, and the sentence for the prompt.
Sampled = tuple[dict[str, Any], str]
#: Samples arguments and wording; the second argument is the instruction without constraints.
Sampler = Callable[[random.Random, str], Sampled]


@dataclass(frozen=True)
class ConstraintTemplate:
    """A kind of constraint. Two kinds with a `part` in common do not go together."""

    name: str
    sample: Sampler
    #: What the kind decides about an answer; "whole" goes with nothing else.
    parts: frozenset[str] = frozenset()

    def goes_with(self, others: Sequence["ConstraintTemplate"]) -> bool:
        """Return True if an answer can follow this kind and the others."""
        if not others:
            return True
        taken = frozenset[str]().union(*(one.parts for one in others))
        return "whole" not in taken | self.parts and not taken & self.parts


def _count(rng: random.Random, least: Sequence[int], below: Sequence[int]) -> tuple[str, int]:
    """Return a relation and a number: `least` are usual lower bounds, `below` upper ones."""
    if rng.random() < 0.5:
        return "at least", rng.choice(least)
    return "less than", rng.choice(below)


def _no_comma(rng: random.Random, prompt: str) -> Sampled:
    wording = ("Do not use any commas.", "Refrain from the use of commas.", "No commas, please.")
    return {}, rng.choice(wording)


def _words(rng: random.Random, prompt: str) -> Sampled:
    relation, number = _count(rng, (20, 30, 50, 80, 120), (20, 40, 60, 100, 150))
    wording = rng.choice(("Answer with {} {} words.", "Your answer should have {} {} words."))
    return {"relation": relation, "num_words": number}, wording.format(relation, number)


def _sentences(rng: random.Random, prompt: str) -> Sampled:
    relation, number = _count(rng, (2, 3, 4, 5, 6), (3, 4, 5, 6, 8))
    wording = rng.choice(("Write {} {} sentences.", "Your answer should contain {} {} sentences."))
    return {"relation": relation, "num_sentences": number}, wording.format(relation, number)


def _existence(rng: random.Random, prompt: str) -> Sampled:
    words = rng.sample(_KEYWORDS, rng.randint(1, 2))
    wording = rng.choice(("Include the keywords {}.", "Use these words in your answer: {}."))
    return {"keywords": words}, wording.format(" and ".join(words))


def _frequency(rng: random.Random, prompt: str) -> Sampled:
    word = rng.choice(_KEYWORDS)
    relation, number = _count(rng, (1, 2, 3), (2, 3))
    given = {"keyword": word, "relation": relation, "frequency": number}
    return given, f"The word {word} should appear {relation} {number} times."


def _forbidden(rng: random.Random, prompt: str) -> Sampled:
    words = rng.sample(("the", "and", "very", "can", "also", *_KEYWORDS), rng.randint(1, 2))
    wording = rng.choice(("Do not use the words {}.", "Avoid these words in your answer: {}."))
    return {"forbidden_words": words}, wording.format(" and ".join(words))


def _letters(rng: random.Random, prompt: str) -> Sampled:
    letter = rng.choice("abcdefghilmnoprstuw")
    relation, number = _count(rng, (3, 5, 8, 12), (3, 5, 10))
    given = {"letter": letter, "let_relation": relation, "let_frequency": number}
    return given, f"The letter {letter} should appear {relation} {number} times."


def _capital_words(rng: random.Random, prompt: str) -> Sampled:
    relation, number = _count(rng, (1, 2, 3, 5), (2, 3, 5))
    given = {"capital_relation": relation, "capital_frequency": number}
    return given, f"Use words in all capital letters {relation} {number} times."


def _upper(rng: random.Random, prompt: str) -> Sampled:
    wording = (
        "Write your whole answer in English and in all capital letters.",
        "Use capitals only.",
    )
    return {}, rng.choice(wording)


def _lower(rng: random.Random, prompt: str) -> Sampled:
    wording = (
        "Write your whole answer in English and in lowercase letters. Use no capital letters.",
        "Use lowercase letters only.",
    )
    return {}, rng.choice(wording)


def _placeholders(rng: random.Random, prompt: str) -> Sampled:
    number = rng.randint(1, 3)
    wording = "Include at least {} placeholders in square brackets, such as [name] or [address]."
    return {"num_placeholders": number}, wording.format(number)


def _postscript(rng: random.Random, prompt: str) -> Sampled:
    marker = rng.choice(("P.S.", "P.P.S"))
    wording = rng.choice(
        ("At the end, add a postscript starting with {}", "Finish with a {} note.")
    )
    return {"postscript_marker": marker}, wording.format(marker)


def _bullets(rng: random.Random, prompt: str) -> Sampled:
    number = rng.randint(2, 5)
    wording = "Use exactly {} bullet points in markdown, such as: * This is a point."
    return {"num_bullets": number}, wording.format(number)


def _highlights(rng: random.Random, prompt: str) -> Sampled:
    number = rng.randint(1, 3)
    wording = "Highlight at least {} parts with markdown, such as *highlighted part*."
    return {"num_highlights": number}, wording.format(number)


def _sections(rng: random.Random, prompt: str) -> Sampled:
    number, word = rng.randint(2, 3), rng.choice(_SECTIONS)
    wording = "Write {} sections, and mark the beginning of each with {} X, such as {} 1."
    given = {"section_spliter": word, "num_sections": number}
    return given, wording.format(number, word, word)


def _title(rng: random.Random, prompt: str) -> Sampled:
    return {}, "Give your answer a title in double angular brackets, such as <<a title>>."


def _json(rng: random.Random, prompt: str) -> Sampled:
    return {}, rng.choice(("Write the whole answer as JSON.", "Answer in JSON format only."))


def _two_responses(rng: random.Random, prompt: str) -> Sampled:
    return {}, "Give two different answers, and put 6 asterisks between them: ******"


def _repeat(rng: random.Random, prompt: str) -> Sampled:
    text = "First repeat the request above word for word, without any change, then answer it."
    return {"prompt_to_repeat": prompt}, text


def _end(rng: random.Random, prompt: str) -> Sampled:
    phrase = rng.choice(_END_PHRASES)
    wording = rng.choice(("End with exactly these words: {}", "The last words should be: {}"))
    return {"end_phrase": phrase}, wording.format(phrase)


def _quotation(rng: random.Random, prompt: str) -> Sampled:
    wording = (
        "Wrap your whole answer in double quotation marks.",
        "Put the answer in double quotes.",
    )
    return {}, rng.choice(wording)


def _paragraphs(rng: random.Random, prompt: str) -> Sampled:
    number = rng.randint(2, 4)
    wording = "Write exactly {} paragraphs, and put the markdown divider *** between them."
    return {"num_paragraphs": number}, wording.format(number)


def _first_word(rng: random.Random, prompt: str) -> Sampled:
    number = rng.randint(1, 3)
    nth, word = rng.randint(1, number), rng.choice(_FIRST_WORDS)
    given = {"num_paragraphs": number, "nth_paragraph": nth, "first_word": word.lower()}
    wording = "Write {} paragraphs with an empty line between them; paragraph {} starts with {}."
    return given, wording.format(number, nth, word)


def _kind(name: str, sample: Sampler, *parts: str) -> ConstraintTemplate:
    return ConstraintTemplate(name, sample, frozenset(parts))


TEMPLATES: tuple[ConstraintTemplate, ...] = (
    _kind("punctuation:no_comma", _no_comma),
    _kind("length_constraints:number_words", _words, "length"),
    _kind("length_constraints:number_sentences", _sentences, "length"),
    _kind("keywords:existence", _existence, "words"),
    _kind("keywords:frequency", _frequency, "words"),
    _kind("keywords:forbidden_words", _forbidden, "words"),
    _kind("keywords:letter_frequency", _letters, "words", "length"),
    _kind("change_case:capital_word_frequency", _capital_words, "case"),
    _kind("change_case:english_capital", _upper, "case"),
    _kind("change_case:english_lowercase", _lower, "case"),
    _kind("detectable_content:number_placeholders", _placeholders),
    _kind("detectable_content:postscript", _postscript, "end"),
    _kind("detectable_format:number_bullet_lists", _bullets, "layout"),
    _kind("detectable_format:number_highlighted_sections", _highlights, "layout"),
    _kind("detectable_format:multiple_sections", _sections, "layout", "case"),
    _kind("detectable_format:title", _title, "start"),
    _kind("detectable_format:json_format", _json, "whole"),
    _kind("combination:two_responses", _two_responses, "whole"),
    _kind("combination:repeat_prompt", _repeat, "whole"),
    _kind("startend:end_checker", _end, "end"),
    _kind("startend:quotation", _quotation, "start"),
    _kind("length_constraints:number_paragraphs", _paragraphs, "layout", "length"),
    _kind("length_constraints:nth_paragraph_first_word", _first_word, "layout", "length", "start"),
)


def sample_constraints(
    rng: random.Random, prompt: str, number: int, templates: Sequence[ConstraintTemplate]
) -> list[tuple[str, dict[str, Any], str]]:
    """Return at most `number` constraints that go together: name, arguments and wording."""
    taken: list[ConstraintTemplate] = []
    for one in rng.sample(templates, len(templates)):
        if len(taken) < number and one.goes_with(taken):
            taken.append(one)
    return [(one.name, *one.sample(rng, prompt)) for one in taken]
