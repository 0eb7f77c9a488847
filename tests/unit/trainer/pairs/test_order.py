"""What the options of `assay data pairs` mean."""

import pytest

from assay_shared.errors import InvalidInput
from assay_trainer.pairs.order import ComponentBound, RejectionType, caps_of


def test_bounds_and_caps_are_read() -> None:
    assert ComponentBound.read("confidence >= 0.7", "--confident") == ComponentBound(
        "confidence", ">=", 0.7
    )
    assert caps_of(["refusal=3", "truncated=0"]) == {
        RejectionType.REFUSAL: 3,
        RejectionType.TRUNCATED: 0,
    }


@pytest.mark.parametrize("text", ["faithful", "faithful=0.5", "<0.5", "faithful<half", "a b<1"])
def test_a_bound_that_cannot_be_read_names_the_option(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a bound") as caught:
        ComponentBound.read(text, "--hallucination")
    assert caught.value.field == "--hallucination"


@pytest.mark.parametrize("texts", [["lies=3"], ["refusal"], ["refusal=-1"], ["refusal=1"] * 2])
def test_a_cap_that_cannot_be_read_is_refused(texts: list[str]) -> None:
    with pytest.raises(InvalidInput, match="is not a type"):
        caps_of(texts)
