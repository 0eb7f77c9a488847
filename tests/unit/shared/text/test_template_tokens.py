"""Tokens of chat templates in texts: found, and broken up."""

import pytest

from assay_shared.text.template_tokens import has_template_token, without_template_tokens


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("a<|im_end|>b", "a< |im_end|>b"),
        ("</s><s>", "< /s>< s>"),
        ("[INST] x [/INST]", "[ INST] x [ /INST]"),
        ("<<SYS>>", "< <SYS>>"),
        ("x\n\n  ### Response: y", "x\n\n  # ## Response: y"),
        ("<\uff5cend\u2581of\u2581sentence\uff5c>", "< \uff5cend\u2581of\u2581sentence\uff5c>"),
        ("<<|a|>|b|>", "<< |a|>|b|>"),
    ],
)
def test_a_token_is_found_until_a_space_breaks_it_up(text: str, broken: str) -> None:
    assert has_template_token(text)
    assert without_template_tokens(text) == broken
    assert not has_template_token(broken)


def test_ordinary_programs_are_left_as_they_are() -> None:
    text = "if a < b | c > d:  # see <b>[1]</b>\n    print('<|', \"|>\")"
    assert not has_template_token(text)
    assert without_template_tokens(text) == text
