"""Lengths of chosen and rejected answers."""

import pytest

from assay_trainer.pairs.lengths import length_numbers


def test_pairs_of_one_prompt_count_as_one_observation() -> None:
    many = [("a", "xxx", "x")] * 30 + [("b", "x", "xxx"), ("c", "xx", "yy")]
    found = length_numbers(many)
    assert found["chosen_longer"]["value"] == pytest.approx(0.5)
    assert found["chosen_longer"]["low"] < 0.2, "three prompts prove nothing"
    assert found["length_difference"]["value"] == pytest.approx(0)
    assert length_numbers([])["chosen_longer"] is None
