import pytest

from assay_shared.text.masking import mask

LONG = "a1B2" * 8


@pytest.mark.parametrize(
    "text",
    [
        f"key s{'k'}-{LONG} is wrong",
        f"Authorization: Bearer {LONG}",
        f"api_key={LONG}&x=1",
        f'"password": "{LONG}"',
        f"https://me:{LONG}@host/v1",
        f"gh{'p'}_{LONG}",
        f"ey{'J'}{LONG}.{LONG}.{LONG}",
        f"AI{'za'}{LONG}",
    ],
)
def test_what_looks_like_a_key_is_hidden(text: str) -> None:
    assert LONG not in mask(text)
    assert "[hidden]" in mask(text)


def test_a_known_secret_is_hidden_wherever_it_stands() -> None:
    assert mask("xopensesamex", "opensesame", None, "") == "x[hidden]x"


def test_other_words_stay() -> None:
    text = "maximum context length is 8192 tokens; the task-specific risk is key to this"
    assert mask(text) == text


def test_a_hostile_text_is_masked_in_time() -> None:
    for part in ("sk-", "token=", "://", "eyJa.", "Bearer  ", "a" * 9 + "@"):
        assert len(mask(part * 100_000)) < 40_000
