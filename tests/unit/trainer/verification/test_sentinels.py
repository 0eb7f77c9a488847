"""Sentinels: each check takes an answer that does as asked, and refuses near misses."""

import pytest

from assay_trainer.verification.sentinels import Sentinel, sentinels

ANSWERS = {
    "translation": (" Chat\nGerman: Katze", ["Chateau", "", "cat", "English: cat\nchat"]),
    "numbered list": (
        "1. Cat\n2. Dog\n3. Cow\n\nThat is all.",
        [
            "1. Cat\n2. Dog",
            "1. a\n2. b\n3. c\n4. d",
            "- a\n- b\n- c",
            "1.\n2.\n3.",
            "2. a\n1. b\n3. c",
        ],
    ),
    "JSON": (
        'Sure:\n```json\n{"name": "cat", "size": 3}\n```',
        ['{"name": "cat"}', '{"name": 1, "size": 2, "x": 3}', "name: cat", '{"name": ', "{" * 5000],
    ),
    "structured description": (
        "Colour: grey\n**Size:** small\n- Use: none\nMore.",
        ["Size: a\nColour: b\nUse: c", "Colour:\nSize:\nUse:", "Colour: a\nSize: b", "grey"],
    ),
    "pattern completion": (" 11, 13", ["13, 11", "x 11", "", "-11", "111", "1" * 5000]),
}


def first_of(kind: str) -> Sentinel:
    return next(one for one in sentinels(1) if one.kind == kind)


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_check_takes_the_answer_and_refuses_near_misses(kind: str) -> None:
    right, wrong = ANSWERS[kind]
    sentinel = first_of(kind)
    assert sentinel.holds(right)
    assert [text for text in wrong if sentinel.holds(text)] == []
    assert not sentinel.holds(sentinel.prompt), "an echo of the prompt holds"


def test_every_kind_has_42_different_prompts() -> None:
    found = sentinels(42)
    assert {kind: sum(one.kind == kind for one in found) for kind in ANSWERS} == dict.fromkeys(
        ANSWERS, 42
    )
    assert len({one.prompt for one in found}) == len(found)
    assert [one.prompt for one in sentinels(42)] == [one.prompt for one in found]
