"""Prompts found again by their words, in any dress."""

import random
from pathlib import Path

import pytest

from assay_shared.errors import DatasetError
from assay_trainer.data.prompt_hashes import HashTable, PromptHash, PromptHashes, read_hashes

LONG = "Add two numbers, x and y; return the sum only if x > 3."
SHORT = "Name a colour"


def known() -> PromptHashes:
    """Return two sets with a prompt each."""
    return PromptHashes([("long", [PromptHash.of(LONG)]), ("short", [PromptHash.of(SHORT)])])


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        LONG.upper().replace(" ", "\n\t "),
        f"Please solve this:\n```python\n{LONG}\n```\nThanks.",
        f"<|im_start|>user\n{LONG}<|im_end|>",
        "ａdd two numbers: x and y, return the sum only if x > 3",
    ],
)
def test_a_prompt_is_found_in_other_dress(text: str) -> None:
    assert known().find(text) == "long"


@pytest.mark.parametrize(
    "text",
    [
        LONG.replace(">", "<"),
        LONG.replace("3", "4"),
        LONG.replace("only ", ""),
        f"{SHORT} or a number",
        "",
        " ".join(LONG.split()[:-1]),
    ],
)
def test_another_prompt_is_not_found(text: str) -> None:
    assert known().find(text) is None


def test_a_short_prompt_is_found_alone() -> None:
    assert known().find("name a COLOUR?") == "short"


def test_every_run_of_a_long_text_is_searched() -> None:
    """Against a plain search of lists of words."""
    rng = random.Random(2)
    words = [rng.choice("abcdefgh") for _ in range(6000)]
    prompts = [words[at : at + rng.randrange(8, 40)] for at in rng.sample(range(5900), 50)]
    for prompt in prompts:
        hashes = PromptHashes([("x", [PromptHash.of(" ".join(prompt))])])
        assert hashes.find(" ".join(words)) == "x"
        # A word that is nowhere in the text takes the prompt out of it.
        changed = PromptHashes([("x", [PromptHash.of(" ".join([*prompt[:-1], "z"]))])])
        assert changed.find(" ".join(words)) is None


def test_order_and_number_of_words_count() -> None:
    texts = ["a b c d e f g h", "b a c d e f g h", "a b c d e f g", "a a b c d e f g h"]
    assert len({PromptHash.of(text).whole for text in texts}) == len(texts)


def test_hashes_are_written_and_read(tmp_path: Path) -> None:
    table = HashTable()
    for text in (LONG, SHORT, "x"):
        table.add(PromptHash.of(text))
    table.drop({1})
    table.write(tmp_path / "a.npz", "set")
    assert read_hashes(tmp_path / "a.npz") == [("set", [PromptHash.of(LONG), PromptHash.of("x")])]
    (tmp_path / "b.npz").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match="cannot be read"):
        read_hashes(tmp_path / "b.npz")
