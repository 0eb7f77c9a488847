import pytest

from assay_shared.answers.amounts import has_unknown_unit


@pytest.mark.parametrize(
    "text",
    [
        "5 nmi",
        "5 ly",
        "It is 5 AU.",
        "5 o'clock",
        "5 pm",
        "5 Mach",
        r"\boxed{5} nmi",
        "**5** pence",
    ],
)
def test_a_word_that_measures_is_a_unit_even_if_it_is_unknown(text: str) -> None:
    assert has_unknown_unit(text, "5")


@pytest.mark.parametrize(
    "text", ["5", "5 km", "5 in total", "5 apples", "It is 5.", "5 are left", "5 altogether", "5 m"]
)
def test_known_units_things_and_other_words_are_none(text: str) -> None:
    assert not has_unknown_unit(text, "5")
