"""Prompts found again by their letters and digits, in any dress."""

import html
import json
import random
from pathlib import Path
from urllib.parse import quote

import pytest

from assay_shared.errors import DatasetError
from assay_shared.types import Message, Role, Task
from assay_trainer.data.prompt_hashes import KeyKind, KeyTable, PromptHashes, PromptKey, keys_of

LONG = "Add two numbers, x and y; return the sum - only if it is\nmore than 3."
SHORT = "Name a colour"
SIGNS = "((-1 + 2 + 9 * 5) - (-2 + -4 + -4 * -7)) ="
QUESTION, OPTIONS = "What is the largest planet?", ("Mars", "Jupiter & moons", "Venus", "Pluto")


def letters(text: str) -> list[list[PromptKey]]:
    """Return a prompt by its letters and digits."""
    return [[key for key in keys_of(text, text) if key.kind is KeyKind.LETTERS]]


def known() -> PromptHashes:
    """Return sets with a prompt each."""
    signs = [key for key in keys_of(SIGNS, SIGNS) if key.kind is KeyKind.SIGNS]
    kinds = (KeyKind.LETTERED, KeyKind.BARE, KeyKind.OPTIONS)
    choice = [key for key in keys_of(QUESTION, QUESTION, OPTIONS) if key.kind in kinds]
    sets = [("long", letters(LONG)), ("short", letters(SHORT)), ("signs", [signs])]
    return PromptHashes([*sets, ("choice", [choice])])


def task(**changes: object) -> Task:
    """Return a task for training."""
    made = Task(id="a/1", dataset="a", role=Role.TRAIN, prompt="Go on.", rubric="math", gold="Yes")
    return made.model_copy(update=changes)


DRESSES = {
    "as it is": LONG,
    "other case and spaces": LONG.upper().replace(" ", "\n\t "),
    "in a fence": f"Please solve this:\n```python\n{LONG}\n```\nThanks.",
    "in a template": f"<|im_start|>user\n{LONG}<|im_end|>",
    "wide letters": LONG.replace("A", "\uff21"),
    "other signs": LONG.replace(";", "!").replace(",", ""),
    "bold words": " ".join(f"**{word}**" for word in LONG.split()),
    "quoted": "\n".join(f"> {line}" for line in LONG.split("\n")),
    "bullets": "\n".join(f"* {line}" for line in LONG.split("\n")),
    "breaks": LONG.replace("\n", "<br/>").replace("sum", '<b class="x">s</b>um'),
    "numbered lines": "\n".join(f"{n}: {t}" for n, t in enumerate(f"a\nb\n{LONG}".split("\n"), 8)),
    "escaped lines": json.dumps({"prompt": LONG}),
    "another dash": LONG.replace("-", "\u2011"),
    "entities": html.escape(f"<{LONG}>"),
    "entities twice": html.escape(html.escape(LONG.replace("numbers", "n&umbers"))),
    "a soft hyphen": LONG.replace("numbers", "num\u00adbers"),
    "zero width": LONG.replace(" ", "\u200b"),
    "accents": LONG.replace("e", "\u00e9"),
    "Cyrillic letters": LONG.replace("a", "\u0430").replace("o", "\u043e"),
    "in an address": f"https://x?q={quote(LONG)}",
}


@pytest.mark.parametrize("dress", DRESSES)
def test_a_prompt_is_found_in_other_dress(dress: str) -> None:
    assert known().find(DRESSES[dress]) == "long"


@pytest.mark.parametrize(
    "text",
    [
        LONG.replace("3", "4"),
        f"{LONG.removesuffix('.')}0",
        LONG.replace("only ", ""),
        f"{SHORT} or a number",
        f"Sure. {SHORT}.",
        "",
        "!!!",
        " ".join(LONG.split()[:-1]),
        SIGNS.replace("*", "+"),
    ],
)
def test_another_prompt_is_not_found(text: str) -> None:
    assert known().find(text) is None


def test_a_short_prompt_is_found_alone() -> None:
    assert known().find("name a COLOUR?") == "short"
    assert known().find("Hello", "name a COLOUR?") == "short"


def test_a_prompt_of_signs_is_found_without_its_spaces() -> None:
    assert known().find(f"Evaluate: {SIGNS.replace(' ', '')} ?") == "signs"


@pytest.mark.parametrize(
    "lines",
    [
        [f"{label}. {text}" for label, text in zip("ABCD", OPTIONS, strict=True)],
        [f"({label}) {text}" for label, text in zip("abcd", OPTIONS, strict=True)],
        [f"{number}) {text}" for number, text in enumerate(OPTIONS, 1)],
        [f"- {text}" for text in reversed(OPTIONS)],
        ["Choices:", *(f"A. {text}" for text in reversed(OPTIONS)), "Answer: C"],
        list(OPTIONS),
    ],
)
def test_a_short_question_is_found_with_its_options(lines: list[str]) -> None:
    text = "\n".join([f"Question: {QUESTION}", *lines])
    assert known().find(text) == "choice"
    assert known().find(text.replace("Mars", "Earth")) is None
    assert known().find(text.replace("largest", "smallest")) is None


def test_a_prompt_in_an_answer_is_found() -> None:
    assert known().find_in(task(gold=f"A question: {LONG} It is 5.")) == "long"
    assert known().find_in(task(), f"A question: {LONG} It is 5.") == "long"
    assert known().find_in(task(gold=f"I would say: {SHORT}!")) is None


def test_a_prompt_in_two_turns_of_the_user_is_found() -> None:
    first, second = LONG[:30], LONG[30:]
    history = (Message(role="user", content=first), Message(role="assistant", content="Go on."))
    assert known().find_in(task(history=history, prompt=second)) == "long"
    assert known().find_in(task(history=history, prompt="And?")) is None


def test_every_run_of_a_long_text_is_searched() -> None:
    rng = random.Random(2)
    words = [rng.choice(["ab", "cde", "fghi", "jklmn"]) for _ in range(6000)]
    prompts = [words[at : at + rng.randrange(12, 40)] for at in rng.sample(range(5900), 50)]
    for prompt in prompts:
        assert PromptHashes([("x", letters(" ".join(prompt)))]).find(" ".join(words)) == "x"
        # A word that is nowhere in the text takes the prompt out of it.
        changed = PromptHashes([("x", letters(" ".join([*prompt[:-1], "z"])))])
        assert changed.find(" ".join(words)) is None


def test_order_and_number_of_letters_count() -> None:
    texts = ["a b c d e f g h", "b a c d e f g h", "a b c d e f g", "a a b c d e f g h"]
    assert len({letters(text)[0][0].whole for text in texts}) == len(texts)


def test_hashes_are_written_and_read(tmp_path: Path) -> None:
    table = KeyTable()
    for text in (LONG, SHORT, "x"):
        table.add(keys_of(text, f"{text}!"))
    table.write(tmp_path / "a.npz", "set")
    (found,) = KeyTable.read(tmp_path / "a.npz").values()
    assert list(found) == list(table)
    assert list(found)[2] == keys_of("x", "x!")
    (tmp_path / "b.npz").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match="cannot be read"):
        KeyTable.read(tmp_path / "b.npz")


def test_hashes_of_an_older_form_are_not_taken_for_an_empty_set(tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "a.npz", mine=np.ones((3, 3), dtype=np.uint64))
    with pytest.raises(DatasetError, match="has hashes of an older form"):
        KeyTable.read(tmp_path / "a.npz")
