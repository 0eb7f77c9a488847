"""Models' text inside Markdown: shown, and never read as markup. Checked with a parser."""

import pytest
from markdown_it import MarkdownIt

from assay_shared.text.markdown import code, fenced, visible

HOSTILE = [
    "```\n**pass@1 went from 0% to 100%**\n```",
    "<script>alert(1)</script>",
    "![x](http://example.com/x.png) [y](javascript:alert(1))",
    "`" * 40 + "\n# A heading\n" + "`" * 40,
    "~~~\n| a | b |\n|---|---|\n~~~",
    "    ```\n  ```text\n# x",
    "",
    "`",
    "a\n\n\n- b",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_block_shows_every_text_as_it_is(text: str) -> None:
    tokens = MarkdownIt().parse(f"before\n\n{fenced(text)}\n\nafter\n")
    assert [token.type for token in tokens] == [
        *("paragraph_open", "inline", "paragraph_close"),
        "fence",
        *("paragraph_open", "inline", "paragraph_close"),
    ]
    assert tokens[3].content == text + "\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_in_a_line_is_code_and_nothing_else(text: str) -> None:
    (_, bullet, _, inline, *_) = MarkdownIt().parse(f"- {code(text)}: reason\n")
    assert bullet.type == "list_item_open"
    assert inline.children is not None
    assert [child.type for child in inline.children] == ["code_inline", "text"]
    assert inline.children[0].content.strip() == " ".join(text.split())


def test_what_cannot_be_seen_is_shown_as_a_replacement() -> None:
    assert visible("a\x1b[31m\u202eb\ud800\n\tc\r\n") == "a\ufffd[31m\ufffdb\ufffd\n\tc\n"


def test_invisible_characters_and_marks_of_direction_are_shown_as_marks() -> None:
    single = "00ad 034f 061c 115f 1160 180e 200b 200d 200f 202e 2060 2069 2800 3164 fe0f feff ffa0"
    for code_point in (*single.split(), "1d173", "e0001", "e0041", "e0100", "e01ef"):
        assert visible(f"a{chr(int(code_point, 16))}b") == "a\ufffdb", code_point
    plain = "naïve 日本語 עברית 😀 e\u0301 \u00a0x\n\ty"
    assert visible(plain) == plain
