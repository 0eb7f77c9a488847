import pytest

from assay_shared.providers.endpoint import is_version_of


@pytest.mark.parametrize(
    ("served", "is_same"),
    [
        ("gpt-4o-2024-08-06", True),
        ("openai/gpt-4o", True),
        ("GPT-4o", True),
        ("gpt-4o:latest", True),
        ("gpt-4o-mini", False),
        ("gpt-4o-mini-2024-07-18", False),
        ("gpt-4o.1", False),
        ("gpt-4", False),
        ("", False),
    ],
)
def test_a_version_of_a_model_is_told_from_another_model(served: str, is_same: bool) -> None:
    assert is_version_of(served, "gpt-4o") is is_same
    assert not is_version_of("theirs/gpt-4o", "ours/gpt-4o")
